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
	// Record is the engine's own, as JSON, and Summary what lists show of it. The store does not look into them. Lists have
	// no Record, which may be large.
	Record, Summary []byte
	// Stored is how many bytes the bucket has of it.
	Stored int64
}

// StatusRunning is the status of an execution whose end is not known yet. Its record says what is true if it never will be.
const StatusRunning = "running"

// The statements of PutExecution, which every run waits for: they are prepared once.
const (
	putExecution = `INSERT INTO executions (id, tenant, api_key, status, created, record, summary, stored)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (id) DO UPDATE SET status = excluded.status, record = excluded.record, summary = excluded.summary, stored = excluded.stored
		WHERE executions.tenant = excluded.tenant`
	putCode = `INSERT INTO code (execution, tenant, created, source) VALUES ($1, $2, $3, $4)
		ON CONFLICT (execution) DO UPDATE SET source = excluded.source`
)

// prepare prepares the statements that runs wait for.
func (s *Store) prepare(ctx context.Context) (err error) {
	if s.putExecution, err = s.db.PrepareContext(ctx, putExecution); err == nil {
		s.putCode, err = s.db.PrepareContext(ctx, putCode)
	}
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	return nil
}

// PutExecution keeps a record, in the place of an earlier one of the same id and tenant. Source, when it is not empty, is the
// code, kept apart. Both are kept, or neither.
func (s *Store) PutExecution(ctx context.Context, x Execution, source string) error {
	err := s.inTransaction(ctx, func(tx *sql.Tx) error {
		result, err := tx.StmtContext(ctx, s.putExecution).ExecContext(ctx, //nolint:sqlclosecheck // it ends with the transaction
			x.ID, x.Tenant, x.Key, x.Status, micros(x.Created), string(x.Record), string(x.Summary), x.Stored)
		if err != nil {
			return err
		}
		if changed, err := result.RowsAffected(); err != nil || changed == 0 {
			return errors.Join(err, fmt.Errorf("the id %s is another tenant's", x.ID))
		}
		if source == "" {
			return nil
		}
		_, err = tx.StmtContext(ctx, s.putCode).ExecContext(ctx, x.ID, x.Tenant, micros(x.Created), strconv.Quote(source)) //nolint:sqlclosecheck // as above
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
		table: "executions", columns: summaryColumns, filter: "status", stamp: "created", scan: scanExecution,
		place: func(x Execution) (time.Time, string) { return x.Created, x.ID },
	}
}

const (
	executionColumns = "id, tenant, api_key, status, created, record, summary, stored"
	summaryColumns   = "id, tenant, api_key, status, created, '', summary, stored"
)

// DeleteExecution removes a tenant's execution, its code, which may have outlived it, and answers that quote it, and records
// who did so. It says ErrNotFound when there was nothing.
func (s *Store) DeleteExecution(ctx context.Context, tenant, id string, deletion Event) error {
	return s.inTransaction(ctx, func(tx *sql.Tx) error {
		var gone int64
		for _, statement := range []string{
			"DELETE FROM executions WHERE id = $1 AND tenant = $2", "DELETE FROM code WHERE execution = $1 AND tenant = $2",
		} {
			result, err := tx.ExecContext(ctx, statement, id, tenant)
			if err != nil {
				return err
			}
			changed, err := result.RowsAffected()
			if err != nil {
				return err
			}
			gone += changed
		}
		if gone == 0 {
			return ErrNotFound
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM answers WHERE tenant = $1 AND answer LIKE '%' || $2 || '%'", tenant, id)
		return errors.Join(err, addEvent(ctx, tx, deletion))
	})
}

// ForgetExecution removes the row of an execution whose time is over. Its code has a time of its own.
func (s *Store) ForgetExecution(ctx context.Context, tenant, id string) error {
	_, err := s.exec(ctx, "DELETE FROM executions WHERE id = $1 AND tenant = $2", id, tenant)
	return err
}

// Known reports whether there is a row of a tenant's execution.
func (s *Store) Known(ctx context.Context, tenant, id string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM executions WHERE id = $1 AND tenant = $2", id, tenant).Scan(&n)
	return n > 0, err
}

// EndLostExecutions gives executions that a dead server has begun the status that their records have.
func (s *Store) EndLostExecutions(ctx context.Context, status string) error {
	_, err := s.exec(ctx, "UPDATE executions SET status = $1 WHERE status = $2", status, StatusRunning)
	return err
}

// Holding returns up to limit executions with bytes in the bucket whose ids come after the given one, of all tenants.
func (s *Store) Holding(ctx context.Context, after string, limit int) ([]Execution, error) {
	return s.executions(ctx, "stored > 0 AND id > $1 ORDER BY id LIMIT $2", after, limit)
}

// Old returns up to limit executions that began before a time, of all tenants, the oldest first: their files go first, then
// ForgetExecution takes the row.
func (s *Store) Old(ctx context.Context, before time.Time, limit int) ([]Execution, error) {
	return s.executions(ctx, "created < $1 ORDER BY created LIMIT $2", micros(before), limit)
}

// Beyond returns up to limit of the executions that are older than the newest count ones, of all tenants.
func (s *Store) Beyond(ctx context.Context, count, limit int) ([]Execution, error) {
	return s.executions(ctx, "TRUE ORDER BY created DESC, id DESC LIMIT $2 OFFSET $1", count, limit)
}

// executions returns the rows of a condition, without their records.
func (s *Store) executions(ctx context.Context, condition string, values ...any) ([]Execution, error) {
	query := "SELECT " + summaryColumns + " FROM executions WHERE " + condition //nolint:gosec // a constant of this file
	rows, err := s.db.QueryContext(ctx, query, values...)
	if err != nil {
		return nil, fmt.Errorf("list executions: %w", err)
	}
	defer rows.Close()
	var found []Execution
	for rows.Next() {
		x, err := scanExecution(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, x)
	}
	return found, rows.Err()
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
	var record, summary string
	if err := row.Scan(&x.ID, &x.Tenant, &x.Key, &x.Status, &created, &record, &summary, &x.Stored); err != nil {
		return Execution{}, absent(err)
	}
	x.Created, x.Record, x.Summary = fromMicros(created), []byte(record), []byte(summary)
	return x, nil
}

// absent makes ErrNotFound of no row.
func absent(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	return err
}
