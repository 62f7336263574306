// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/store"
)

// The patience with the store, and how long what was read of it holds.
const (
	storePatience = 5 * time.Second
	refreshEvery  = 30 * time.Second
)

var errSlowStore = errors.New("the database took too long")

// Store is where usage is kept.
type Store interface {
	AddUsage(ctx context.Context, tenant string, at time.Time, u store.Usage) error
	Usage(ctx context.Context, tenant string, from, to time.Time) (store.Usage, error)
}

// Budget is what a tenant may use in a month, by the names of Quantities; what is not in Limits has no budget.
type Budget struct {
	Limits map[string]int64
	// Warn is the share in percent at which the log says so.
	Warn int
}

// Account is an engine.Account. It is safe for concurrent use.
type Account struct {
	Store  Store
	Budget func(tenant string) Budget
	Log    *slog.Logger
	Now    func() time.Time

	restMu sync.Mutex
	// rest is what is left of a MiB-second of each tenant: short runs use less than one.
	rest map[string]float64

	mu     sync.Mutex
	months map[string]*month // of tenants with a budget
}

// month is what a tenant has used in its month, as far as this server knows.
type month struct {
	began  time.Time
	read   time.Time
	used   store.Usage
	warned map[string]bool
}

func firstOf(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// Allow refuses a tenant that has used up one of its budgets. A tenant without any costs nothing here.
func (a *Account) Allow(tenant string) error {
	budget := a.Budget(tenant)
	if len(budget.Limits) == 0 {
		return nil
	}
	used, err := a.month(tenant)
	if err != nil {
		return &engine.Problem{Code: engine.CodeStorage, Err: err, Text: "what the tenant has used cannot be read now: try again later"}
	}
	for _, q := range Quantities() {
		if limit, ok := budget.Limits[q.Name]; ok && q.Of(used) >= limit {
			next := firstOf(a.Now()).AddDate(0, 1, 0)
			return &engine.Problem{Code: engine.CodeBudget, Text: fmt.Sprintf(
				"budget %s of tenant %s is %s a month, and %s are used: wait until %s, or have it raised",
				q.Name, tenant, q.Text(limit), q.Text(q.Of(used)), next.Format(time.DateOnly))}
		}
	}
	return nil
}

// month returns what a tenant has used in this month.
func (a *Account) month(tenant string) (store.Usage, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.Now()
	if m := a.months[tenant]; m != nil && m.began.Equal(firstOf(now)) && now.Sub(m.read) < refreshEvery {
		return m.used, nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), storePatience, errSlowStore)
	defer cancel()
	used, err := a.Store.Usage(ctx, tenant, firstOf(now), now)
	if err != nil {
		return store.Usage{}, err
	}
	m := a.months[tenant]
	if m == nil || !m.began.Equal(firstOf(now)) {
		m = &month{began: firstOf(now), warned: make(map[string]bool)}
	}
	m.read, m.used = now, used
	if a.months == nil {
		a.months = make(map[string]*month)
	}
	a.months[tenant] = m
	return used, nil
}

// Spend adds what an execution or a sandbox used.
func (a *Account) Spend(spent engine.Spent) {
	u := store.Usage{
		Runs: spent.Runs, CPU: spent.CPU.Microseconds(), MemorySeconds: a.whole(spent.Tenant, spent.MemorySeconds), Stored: spent.Stored,
	}
	budget := a.Budget(spent.Tenant)
	if len(budget.Limits) > 0 { // nobody reads the month between the two places where it is added
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	now := a.Now()
	ctx, cancel := context.WithTimeoutCause(context.Background(), storePatience, errSlowStore)
	defer cancel()
	if err := a.Store.AddUsage(ctx, spent.Tenant, now, u); err != nil {
		a.Log.Error("usage was not counted", "tenant", spent.Tenant, "runs", u.Runs, "cpu_micros", u.CPU, "memory_mib_seconds", u.MemorySeconds,
			"stored_bytes", u.Stored, "error", err)
	}
	if len(budget.Limits) > 0 {
		a.warn(spent.Tenant, budget, u, now)
	}
}

// whole returns the whole part of what is left and this, and keeps the rest for the next time.
func (a *Account) whole(tenant string, memorySeconds float64) int64 {
	a.restMu.Lock()
	defer a.restMu.Unlock()
	if a.rest == nil {
		a.rest = make(map[string]float64)
	}
	whole, rest := math.Modf(a.rest[tenant] + memorySeconds)
	a.rest[tenant] = rest
	return int64(whole)
}

// warn adds to what is known of the month, and says once for each budget that most of it is used.
func (a *Account) warn(tenant string, budget Budget, u store.Usage, now time.Time) {
	m := a.months[tenant]
	if m == nil || !m.began.Equal(firstOf(now)) {
		return // Allow reads it
	}
	m.used = sum(m.used, u)
	for _, q := range Quantities() {
		limit, ok := budget.Limits[q.Name]
		if !ok || m.warned[q.Name] || !above(q.Of(m.used), limit, budget.Warn) {
			continue
		}
		m.warned[q.Name] = true
		a.Log.Warn("a tenant has used most of its budget", "tenant", tenant, "budget", q.Name, "used", q.Text(q.Of(m.used)), "limit", q.Text(limit))
	}
}

// above reports whether used is at least so many percent of limit.
func above(used, limit int64, percent int) bool {
	const whole = 100
	return float64(used)*whole >= float64(limit)*float64(percent)
}

func sum(a, b store.Usage) store.Usage {
	return store.Usage{
		Runs: a.Runs + b.Runs, CPU: a.CPU + b.CPU, MemorySeconds: a.MemorySeconds + b.MemorySeconds,
		Stored: a.Stored + b.Stored, Tokens: a.Tokens + b.Tokens,
	}
}
