// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"time"
)

// Keys is where keys are kept.
type Keys interface {
	// Key returns the key of this id, revoked and expired ones too. ErrUnknown when there is none.
	Key(ctx context.Context, id string) (Key, error)
	// Used remembers when a key was used last.
	Used(ctx context.Context, id string, at time.Time) error
}

// Why a caller is not let in. All of them but the last are told apart only for who holds a key.
var (
	ErrMissing = errors.New("no key was sent")
	ErrUnknown = errors.New("this key was never made here, or was removed")
	ErrRevoked = errors.New("this key was revoked")
	ErrExpired = errors.New("this key has expired")
)

// usedEvery is how exactly the last use of a key is known: a write for each request would cost more than the check.
const usedEvery = time.Minute

// usedPatience is how long a caller waits for the note of a key's last use.
const usedPatience = time.Second

// Authenticator finds the principal of a token. It keeps nothing between two requests, so that a revoked key is refused
// at once, whoever revoked it.
type Authenticator struct {
	Keys Keys
	// Token is the operator's; empty for none.
	Token string
	Now   func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// Authenticate returns the principal of a token: the operator's, or a key. The error is one of those above, ErrMalformed,
// or the store's.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (*Principal, error) {
	if token == "" {
		return nil, ErrMissing
	}
	given := Hash(sha256.Sum256([]byte(token)))
	if a.Token != "" && given.Equal(sha256.Sum256([]byte(a.Token))) {
		return Operator(), nil
	}
	id, hash, err := ParseKey(token)
	if err != nil {
		return nil, err
	}
	key, err := a.Keys.Key(ctx, id)
	if err != nil {
		return nil, err
	}
	now := a.Now()
	switch {
	case !key.Hash.Equal(hash):
		return nil, ErrUnknown
	case !key.Revoked.IsZero():
		return nil, ErrRevoked
	case !key.Expires.IsZero() && !now.Before(key.Expires):
		return nil, ErrExpired
	}
	if now.Sub(key.LastUsed) >= usedEvery {
		a.note(ctx, id, now)
	}
	return Of(key), nil
}

// note remembers when a key was used. That it cannot be remembered keeps nobody out: whoever fills the disk, or holds the
// database, would close the server to all tenants, also to those who want to delete something.
func (a *Authenticator) note(ctx context.Context, id string, now time.Time) {
	ctx, cancel := context.WithTimeoutCause(ctx, usedPatience, errors.New("the database is busy"))
	defer cancel()
	if err := a.Keys.Used(ctx, id, now); err != nil && a.Log != nil {
		a.Log.WarnContext(ctx, "the last use of a key could not be noted", "key", id, "error", err)
	}
}
