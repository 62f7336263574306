// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The states of a sandbox that lives between executions.
const (
	StateAlive = "alive"
	StateEnded = "ended"
)

// Sandbox is the row of a sandbox that lives between executions.
type Sandbox struct {
	ID, Tenant, Key string
	State           string
	Created, Ended  time.Time
	// Record is the engine's own, as JSON: what it is, and why it ended.
	Record []byte
}

// PutSandbox keeps a sandbox, in the place of an earlier row of the same id and tenant.
func (s *Store) PutSandbox(ctx context.Context, b Sandbox) error {
	changed, err := s.exec(ctx, `INSERT INTO sandboxes (id, tenant, api_key, state, created, ended, record) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO UPDATE SET state = excluded.state, ended = excluded.ended, record = excluded.record
		WHERE sandboxes.tenant = excluded.tenant`,
		b.ID, b.Tenant, b.Key, b.State, micros(b.Created), micros(b.Ended), string(b.Record))
	if err == nil && changed == 0 {
		err = errors.New("the id is another tenant's")
	}
	if err != nil {
		return fmt.Errorf("keep sandbox %s: %w", b.ID, err)
	}
	return nil
}

// Sandbox returns a tenant's sandbox, or ErrNotFound.
func (s *Store) Sandbox(ctx context.Context, tenant, id string) (Sandbox, error) {
	return scanSandbox(s.db.QueryRowContext(ctx,
		"SELECT "+sandboxColumns+" FROM sandboxes WHERE id = $1 AND tenant = $2", id, tenant))
}

// Sandboxes returns a page of a tenant's sandboxes, the newest first; Page.Status is a state.
func (s *Store) Sandboxes(ctx context.Context, tenant string, page Page) (_ []Sandbox, next string, err error) {
	return listSandboxes().page(ctx, s, tenant, page)
}

func listSandboxes() listing[Sandbox] {
	return listing[Sandbox]{
		table: "sandboxes", columns: sandboxColumns, filter: "state", stamp: "created", scan: scanSandbox,
		place: func(b Sandbox) (time.Time, string) { return b.Created, b.ID },
	}
}

const sandboxColumns = "id, tenant, api_key, state, created, ended, record"

// EndLost marks every sandbox as ended that no server holds any more: all that were alive when this server starts. It
// returns how many.
func (s *Store) EndLost(ctx context.Context, at time.Time) (int64, error) {
	return s.exec(ctx, "UPDATE sandboxes SET state = $1, ended = $2 WHERE state = $3", StateEnded, micros(at), StateAlive)
}

func scanSandbox(row scanner) (Sandbox, error) {
	var b Sandbox
	var created, ended int64
	var record string
	if err := row.Scan(&b.ID, &b.Tenant, &b.Key, &b.State, &created, &ended, &record); err != nil {
		return Sandbox{}, absent(err)
	}
	b.Created, b.Ended, b.Record = fromMicros(created), fromMicros(ended), []byte(record)
	return b, nil
}
