// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Usage is what a tenant used.
type Usage struct {
	Runs int64 `json:"runs"`
	CPU  int64 `json:"cpu_micros"`
	// MemorySeconds are MiB times seconds.
	MemorySeconds int64 `json:"memory_mib_seconds"`
	// Stored is what was added to what is kept, in bytes.
	Stored int64 `json:"stored_bytes"`
	Tokens int64 `json:"model_tokens"`
}

const dayFormat = "2006-01-02"

// AddUsage adds to what the tenant used on the day of at.
func (s *Store) AddUsage(ctx context.Context, tenant string, at time.Time, u Usage) error {
	_, err := s.exec(ctx, `INSERT INTO usage (tenant, day, runs, cpu_micros, memory_seconds, stored_bytes, tokens) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (tenant, day) DO UPDATE SET runs = usage.runs + excluded.runs, cpu_micros = usage.cpu_micros + excluded.cpu_micros,
		memory_seconds = usage.memory_seconds + excluded.memory_seconds, stored_bytes = usage.stored_bytes + excluded.stored_bytes,
		tokens = usage.tokens + excluded.tokens`,
		tenant, at.UTC().Format(dayFormat), u.Runs, u.CPU, u.MemorySeconds, u.Stored, u.Tokens)
	if err != nil {
		return fmt.Errorf("count the usage of %s: %w", tenant, err)
	}
	return nil
}

// Usage sums what the tenant used from the day of from up to that of to, both included.
func (s *Store) Usage(ctx context.Context, tenant string, from, to time.Time) (Usage, error) {
	var u Usage
	err := s.db.QueryRowContext(ctx, `SELECT COALESCE(SUM(runs), 0), COALESCE(SUM(cpu_micros), 0), COALESCE(SUM(memory_seconds), 0),
		COALESCE(SUM(stored_bytes), 0), COALESCE(SUM(tokens), 0) FROM usage WHERE tenant = $1 AND day >= $2 AND day <= $3`,
		tenant, from.UTC().Format(dayFormat), to.UTC().Format(dayFormat)).Scan(&u.Runs, &u.CPU, &u.MemorySeconds, &u.Stored, &u.Tokens)
	if err != nil {
		return Usage{}, fmt.Errorf("read the usage of %s: %w", tenant, err)
	}
	return u, nil
}
