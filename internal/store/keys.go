// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"glovebox/internal/auth"
)

// keyAbout is the part of a key that no query asks for.
type keyAbout struct {
	Scopes []auth.Scope `json:"scopes"`
	Policy string       `json:"policy,omitempty"`
	Images []string     `json:"images,omitempty"`
	Quota  auth.Quota   `json:"quota,omitzero"`
}

const keyColumns = "id, tenant, name, hash, about, created, expires, revoked, last_used"

// AddKey keeps a new key.
func (s *Store) AddKey(ctx context.Context, key auth.Key) error {
	about, err := json.Marshal(keyAbout{Scopes: key.Scopes, Policy: key.Policy, Images: key.Images, Quota: key.Quota})
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, "INSERT INTO keys ("+keyColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		key.ID, key.Tenant, key.Name, hex.EncodeToString(key.Hash[:]), string(about), micros(key.Created), micros(key.Expires),
		micros(key.Revoked), micros(key.LastUsed))
	if err != nil {
		return fmt.Errorf("keep the key: %w", err)
	}
	return nil
}

// Key implements auth.Keys.
func (s *Store) Key(ctx context.Context, id string) (auth.Key, error) {
	key, err := scanKey(s.db.QueryRowContext(ctx, "SELECT "+keyColumns+" FROM keys WHERE id = $1", id))
	if errors.Is(err, sql.ErrNoRows) {
		return auth.Key{}, auth.ErrUnknown
	}
	return key, err
}

// Used implements auth.Keys.
func (s *Store) Used(ctx context.Context, id string, at time.Time) error {
	_, err := s.exec(ctx, "UPDATE keys SET last_used = $1 WHERE id = $2", micros(at), id)
	return err
}

// Keys returns the keys of a tenant, or of all with an empty name, the oldest first.
func (s *Store) Keys(ctx context.Context, tenant string) ([]auth.Key, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT "+keyColumns+" FROM keys WHERE tenant = $1 OR $1 = '' ORDER BY created, id", tenant)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer rows.Close()
	var keys []auth.Key
	for rows.Next() {
		key, err := scanKey(rows)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, rows.Err()
}

// RevokeKey ends a key for good, from this moment on. A key that was revoked before stays as it is.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) error {
	changed, err := s.exec(ctx, "UPDATE keys SET revoked = CASE WHEN revoked = 0 THEN $1 ELSE revoked END WHERE id = $2", micros(at), id)
	if err == nil && changed == 0 {
		err = ErrNotFound
	}
	return err
}

func scanKey(row scanner) (auth.Key, error) {
	var key auth.Key
	var hash, about string
	var created, expires, revoked, used int64
	if err := row.Scan(&key.ID, &key.Tenant, &key.Name, &hash, &about, &created, &expires, &revoked, &used); err != nil {
		return auth.Key{}, fmt.Errorf("read a key: %w", err)
	}
	raw, err := hex.DecodeString(hash)
	if err != nil || len(raw) != len(key.Hash) {
		return auth.Key{}, fmt.Errorf("key %s: its hash is damaged", key.ID)
	}
	copy(key.Hash[:], raw)
	var rest keyAbout
	if err := json.Unmarshal([]byte(about), &rest); err != nil {
		return auth.Key{}, fmt.Errorf("key %s: %w", key.ID, err)
	}
	key.Scopes, key.Policy, key.Images, key.Quota = rest.Scopes, rest.Policy, rest.Images, rest.Quota
	key.Created, key.Expires, key.Revoked, key.LastUsed = fromMicros(created), fromMicros(expires), fromMicros(revoked), fromMicros(used)
	return key, nil
}
