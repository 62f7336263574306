// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"
)

// Event is something that somebody did and that must be known later.
type Event struct {
	ID, Tenant, Key string
	At              time.Time
	// Action is a word, such as code.read; Target what it was done to.
	Action, Target string
}

// AddEvent keeps an event.
func (s *Store) AddEvent(ctx context.Context, e Event) error { return addEvent(ctx, s.db, e) }

func addEvent(ctx context.Context, db execer, e Event) error {
	_, err := db.ExecContext(ctx, "INSERT INTO events (id, tenant, api_key, at, action, target) VALUES ($1, $2, $3, $4, $5, $6)",
		e.ID, e.Tenant, e.Key, micros(e.At), e.Action, e.Target)
	if err != nil {
		return fmt.Errorf("record that %s: %w", e.Action, err)
	}
	return nil
}

// Events returns a page of a tenant's events, the newest first; Page.Status is an action.
func (s *Store) Events(ctx context.Context, tenant string, page Page) (_ []Event, next string, err error) {
	return listEvents().page(ctx, s, tenant, page)
}

func listEvents() listing[Event] {
	return listing[Event]{
		table: "events", columns: "id, tenant, api_key, at, action, target", filter: "action", stamp: "at",
		scan: func(row scanner) (e Event, err error) {
			var at int64
			err = row.Scan(&e.ID, &e.Tenant, &e.Key, &at, &e.Action, &e.Target)
			e.At = fromMicros(at)
			return e, err
		},
		place: func(e Event) (time.Time, string) { return e.At, e.ID },
	}
}
