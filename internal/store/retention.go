// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Retention says how long each kind is kept; all fields must be above zero.
type Retention struct {
	// Records is for sandboxes that ended; executions, which have files, go by Old.
	Records time.Duration
	// Code is for the code that was run, and for prompts.
	Code time.Duration
	// Events is for who did what.
	Events time.Duration
	// Answers is for answers to requests that may come again.
	Answers time.Duration
}

// expireBatch bounds the rows of one transaction: others must get their turn.
const expireBatch = 500

// Expire deletes what has nothing but rows and is older than the retention. It returns how many rows went.
func (s *Store) Expire(ctx context.Context, now time.Time, keep Retention) (gone int64, err error) {
	for _, kind := range []struct {
		table, key, where string
		age               time.Duration
	}{
		{"code", "execution", "created < $1", keep.Code},
		{"sandboxes", "id", "state = 'ended' AND ended < $1", keep.Records},
		{"events", "id", "at < $1", keep.Events},
	} {
		for {
			n, err := s.exec(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s IN (SELECT %[2]s FROM %[1]s WHERE %[3]s LIMIT %d)",
				kind.table, kind.key, kind.where, expireBatch), micros(now.Add(-kind.age)))
			if err != nil {
				return gone, fmt.Errorf("expire %s: %w", kind.table, err)
			}
			gone += n
			if n < expireBatch {
				break
			}
		}
	}
	n, err := s.exec(ctx, "DELETE FROM answers WHERE created < $1", micros(now.Add(-keep.Answers)))
	return gone + n, err
}

// DeleteTenant removes every row of a tenant, its keys included. Events are kept: they say who deleted it.
func (s *Store) DeleteTenant(ctx context.Context, tenant string) error {
	err := s.inTransaction(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"keys", "executions", "code", "sandboxes", "usage", "answers"} {
			statement := "DELETE FROM " + table + " WHERE tenant = $1" //nolint:gosec // a name of the list above
			if _, err := tx.ExecContext(ctx, statement, tenant); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete tenant %s: %w", tenant, err)
	}
	return nil
}

// ErrNotPurged means that what was deleted may still be in the write-ahead log.
var ErrNotPurged = errors.New("the write-ahead log of the database is in use by others: what was deleted is in it until a later sweep")

// Purge makes what was deleted unreadable in the files of the database too: SQLite overwrites deleted rows, but its
// write-ahead log still has them. PostgreSQL is asked to free the space; how its files forget is its operator's matter.
func (s *Store) Purge(ctx context.Context) error {
	if s.sqlite {
		return s.truncateLog(ctx)
	}
	for _, table := range []string{"keys", "executions", "code", "sandboxes", "answers"} {
		if _, err := s.db.ExecContext(ctx, "VACUUM "+table); err != nil {
			return fmt.Errorf("purge the database: %w", err)
		}
	}
	return nil
}

// truncateLog moves the write-ahead log into the database and empties it. SQLite waits for readers and writers, and says by
// a number when that was in vain.
func (s *Store) truncateLog(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	var busy, pages, moved int
	if err := s.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved); err != nil {
		return fmt.Errorf("purge the database: %w", err)
	}
	if busy != 0 {
		return ErrNotPurged
	}
	return nil
}
