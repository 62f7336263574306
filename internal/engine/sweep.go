// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"glovebox/internal/sandbox"
	"glovebox/internal/store"
)

// sweepBatch bounds what a sweep takes at a time.
const sweepBatch = 200

// Recover makes good what a server left that died: executions that ran are lost, files without a record and records
// without their files are removed. It is called before anything runs.
func (s *Store) Recover(ctx context.Context) error {
	if s.Database == nil {
		return nil
	}
	_, err := s.Database.EndLost(ctx, s.Now())
	err = errors.Join(err, s.Database.UnclaimLost(ctx), s.Database.EndLostExecutions(ctx, string(sandbox.EndInfra)))
	if err != nil {
		return fmt.Errorf("record what the last server left: %w", err)
	}
	present := make(map[string]bool)
	files, records := 0, 0
	err = s.Blobs.Each(ctx, func(tenant, id string) error {
		known, err := s.Database.Known(ctx, tenant, id)
		if err != nil || known || s.holds(sandbox.ID(id)) {
			present[tenant+"/"+id] = true
			return err
		}
		files++
		return s.Blobs.Remove(ctx, tenant, id)
	})
	if err != nil {
		return fmt.Errorf("look for files without a record: %w", err)
	}
	for after := ""; ; {
		rows, err := s.Database.Holding(ctx, after, sweepBatch)
		if err != nil {
			return fmt.Errorf("look for records without files: %w", err)
		}
		for _, row := range rows {
			after = row.ID
			if present[row.Tenant+"/"+row.ID] || s.holds(sandbox.ID(row.ID)) {
				continue
			}
			records++
			if err := s.Database.ForgetExecution(ctx, row.Tenant, row.ID); err != nil {
				return err
			}
		}
		if len(rows) < sweepBatch {
			break
		}
	}
	if files+records > 0 {
		s.Log.WarnContext(ctx, "removed what belongs to nothing", "files_of_executions", files, "records", records)
	}
	return s.Database.Purge(ctx)
}

// Sweep removes what is older or more than the retention allows, and makes it unreadable.
func (s *Store) Sweep(ctx context.Context) error {
	if s.Database == nil {
		return nil
	}
	r, now := s.Retention, s.Now()
	old, err := s.forgetAll(ctx, func() ([]store.Execution, error) { return s.Database.Old(ctx, now.Add(-r.Age), sweepBatch) })
	if err != nil {
		return err
	}
	beyond, err := s.forgetAll(ctx, func() ([]store.Execution, error) { return s.Database.Beyond(ctx, r.Count, sweepBatch) })
	if err != nil {
		return err
	}
	rows, err := s.Database.Expire(ctx, now, store.Retention{Records: r.Age, Code: r.Code, Events: r.Events, Answers: r.Answers})
	if err != nil {
		return err
	}
	if old+beyond+int(rows) > 0 {
		s.Log.InfoContext(ctx, "swept what is over its retention", "executions", old+beyond, "rows", rows)
	}
	return s.Database.Purge(ctx) // also for a deletion that could not
}

// forgetAll removes executions, batch by batch, until there are no more.
func (s *Store) forgetAll(ctx context.Context, next func() ([]store.Execution, error)) (gone int, err error) {
	for {
		rows, err := next()
		if err != nil {
			return gone, err
		}
		before := gone
		for _, row := range rows {
			if s.holds(sandbox.ID(row.ID)) {
				continue
			}
			if err := s.Blobs.Remove(ctx, row.Tenant, row.ID); err != nil {
				return gone, err
			}
			if err := s.Database.ForgetExecution(ctx, row.Tenant, row.ID); err != nil {
				return gone, err
			}
			gone++
		}
		if len(rows) < sweepBatch || gone == before {
			return gone, nil
		}
	}
}

// SweepEvery sweeps until ctx ends.
func (s *Store) SweepEvery(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.ErrorContext(ctx, "sweeping failed; it is tried again", "after", interval.String(), "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
