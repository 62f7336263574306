// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Execution is the row of one execution.
type Execution struct {
	ID, Tenant, Key string
	// Status is a word of the record, for filters.
	Status  string
	Created time.Time
	// Record is the engine's own, as JSON. The store does not look into it.
	Record []byte
}

// PutExecution keeps a record, in the place of an earlier one of the same id and tenant. Source, when it is not empty, is the
// code, kept apart. Both are kept, or neither.
func (s *Store) PutExecution(ctx context.Context, x Execution, source string) error {
	err := s.inTransaction(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO executions (id, tenant, api_key, status, created, record) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (id) DO UPDATE SET status = excluded.status, record = excluded.record WHERE executions.tenant = excluded.tenant`,
			x.ID, x.Tenant, x.Key, x.Status, micros(x.Created), string(x.Record))
		if err != nil {
			return err
		}
		if changed, err := result.RowsAffected(); err != nil || changed == 0 {
			return errors.Join(err, fmt.Errorf("the id %s is another tenant's", x.ID))
		}
		if source == "" {
			return nil
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO code (execution, tenant, created, source) VALUES ($1, $2, $3, $4)
			ON CONFLICT (execution) DO UPDATE SET source = excluded.source`, x.ID, x.Tenant, micros(x.Created), strconv.Quote(source))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the record of execution %s: %w", x.ID, err)
	}
	return nil
}

// Execution returns a tenant's execution, or ErrNotFound.
func (s *Store) Execution(ctx context.Context, tenant, id string) (Execution, error) {
	return scanExecution(s.db.QueryRowContext(ctx,
		"SELECT "+executionColumns+" FROM executions WHERE id = $1 AND tenant = $2", id, tenant))
}

// Page says which part of a list is asked for.
type Page struct {
	// Status filters; empty for all.
	Status string
	// Before is where the page begins: what Next of the page before said. Empty is the newest.
	Before string
	// Limit is how many rows at most; it must be above zero.
	Limit int
}

// Executions returns a page of a tenant's executions, the newest first, and where the next page begins, empty after the last.
func (s *Store) Executions(ctx context.Context, tenant string, page Page) (_ []Execution, next string, err error) {
	return listExecutions().page(ctx, s, tenant, page)
}

func listExecutions() listing[Execution] {
	return listing[Execution]{
		table: "executions", columns: executionColumns, filter: "status", stamp: "created", scan: scanExecution,
		place: func(x Execution) (time.Time, string) { return x.Created, x.ID },
	}
}

const executionColumns = "id, tenant, api_key, status, created, record"

// DeleteExecution removes a tenant's execution and its code, or says ErrNotFound.
func (s *Store) DeleteExecution(ctx context.Context, tenant, id string) error {
	return s.inTransaction(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM executions WHERE id = $1 AND tenant = $2", id, tenant)
		if err != nil {
			return err
		}
		if changed, err := result.RowsAffected(); err != nil || changed == 0 {
			return errors.Join(err, ErrNotFound)
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM code WHERE execution = $1 AND tenant = $2", id, tenant)
		return err
	})
}

// Code returns the code of a tenant's execution and records that the key read it; when that cannot be recorded it is not
// read.
func (s *Store) Code(ctx context.Context, tenant, id string, reading Event) (source string, err error) {
	err = s.inTransaction(ctx, func(tx *sql.Tx) error {
		row := tx.QueryRowContext(ctx, "SELECT source FROM code WHERE execution = $1 AND tenant = $2", id, tenant)
		var quoted string // so that it may hold bytes that no text of PostgreSQL can
		if err := row.Scan(&quoted); err != nil {
			return absent(err)
		}
		if source, err = strconv.Unquote(quoted); err != nil {
			return fmt.Errorf("the code of execution %s is damaged: %w", id, err)
		}
		return addEvent(ctx, tx, reading)
	})
	if err != nil {
		return "", err
	}
	return source, nil
}

func scanExecution(row scanner) (Execution, error) {
	var x Execution
	var created int64
	var record string
	if err := row.Scan(&x.ID, &x.Tenant, &x.Key, &x.Status, &created, &record); err != nil {
		return Execution{}, absent(err)
	}
	x.Created, x.Record = fromMicros(created), []byte(record)
	return x, nil
}

// absent makes ErrNotFound of no row.
func absent(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}
