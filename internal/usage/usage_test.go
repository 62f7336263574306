// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/store"
	"glovebox/internal/usage"
)

type bench struct {
	*usage.Account
	log *bytes.Buffer
	now time.Time
}

func newBench(t *testing.T, budget usage.Budget) *bench {
	t.Helper()
	database, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{log: &bytes.Buffer{}, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	b.Account = &usage.Account{
		Store: database, Budget: func(tenant string) usage.Budget {
			if tenant == "acme" {
				return budget
			}
			return usage.Budget{}
		},
		Log: slog.New(slog.NewTextHandler(b.log, nil)), Now: func() time.Time { return b.now },
	}
	return b
}

func run(tenant string) engine.Spent {
	return engine.Spent{Tenant: tenant, Runs: 1, CPU: 2 * time.Second, MemorySeconds: 99.5, Stored: 10}
}

// TestBudgetsWarnAndStop: at the share once, at the limit for good, and begin anew with the month; others are not touched.
func TestBudgetsWarnAndStop(t *testing.T) {
	t.Parallel()
	b := newBench(t, usage.Budget{Limits: map[string]int64{"runs": 10, "cpu": time.Hour.Microseconds()}, Warn: 80})
	for n := range 10 {
		if err := b.Allow("acme"); err != nil {
			t.Fatalf("run %d: %v", n, err)
		}
		if warned := strings.Count(b.log.String(), "most of its budget"); n < 8 && warned != 0 || n >= 8 && warned != 1 {
			t.Errorf("run %d: warned %d times", n, warned)
		}
		b.Spend(run("acme"))
		b.Spend(run("other"))
	}
	err := b.Allow("acme")
	if engine.CodeOf(err) != engine.CodeBudget || !strings.Contains(err.Error(), "budget runs of tenant acme is 10 a month, and 10 are used: wait until 2026-12-01") {
		t.Errorf("at the limit: %v", err)
	}
	if err := b.Allow("other"); err != nil {
		t.Error(err)
	}
	report, err := b.Report(t.Context(), "acme", b.now.AddDate(0, 0, -1), b.now)
	if err != nil || report.Runs != 10 || report.CPU != 20_000_000 || report.MemorySeconds != 995 || report.Stored != 100 || len(report.Budgets) != 2 ||
		report.Budgets[0].State != "stop" || report.Budgets[1].State != "ok" || report.From != "2026-11-28" {
		t.Errorf("%+v, %v", report, err)
	}
	b.now = b.now.AddDate(0, 0, 2)
	if err := b.Allow("acme"); err != nil {
		t.Errorf("in the next month: %v", err)
	}
}

// TestOtherServersAreSeen: what another server counts is known a while later.
func TestOtherServersAreSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t, usage.Budget{Limits: map[string]int64{"runs": 5}, Warn: 80})
	if err := b.Allow("acme"); err != nil {
		t.Fatal(err)
	}
	if err := b.Store.AddUsage(t.Context(), "acme", b.now, store.Usage{Runs: 5}); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(time.Minute)
	if err := b.Allow("acme"); engine.CodeOf(err) != engine.CodeBudget {
		t.Errorf("got %v", err)
	}
}

// TestNothingIsLostInACrowd: many that end at once are all counted.
func TestNothingIsLostInACrowd(t *testing.T) {
	t.Parallel()
	b := newBench(t, usage.Budget{})
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() { b.Spend(run("acme")) })
	}
	group.Wait()
	for range 300 {
		b.Spend(engine.Spent{Tenant: "short", MemorySeconds: 0.01})
	}
	if report, err := b.Report(t.Context(), "short", b.now, b.now); err != nil || report.MemorySeconds < 2 || report.MemorySeconds > 3 {
		t.Errorf("of short runs: %+v, %v", report, err)
	}
	if report, err := b.Report(t.Context(), "acme", b.now, b.now); err != nil || report.Runs != 200 {
		t.Errorf("%+v, %v", report, err)
	}
}

type gone struct{}

func (gone) AddUsage(context.Context, string, time.Time, store.Usage) error {
	return errors.New("no database")
}

func (gone) Usage(context.Context, string, time.Time, time.Time) (store.Usage, error) {
	return store.Usage{}, errors.New("no database")
}

// TestAStoreThatIsGone: what was not counted is in the log, and a budget that cannot be read is not taken for an empty one.
func TestAStoreThatIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, usage.Budget{Limits: map[string]int64{"runs": 5}})
	b.Store = gone{}
	b.Spend(run("acme"))
	if !strings.Contains(b.log.String(), "usage was not counted") || !strings.Contains(b.log.String(), "cpu_micros=2000000") {
		t.Errorf("the log says %s", b.log)
	}
	if err := b.Allow("acme"); engine.CodeOf(err) != engine.CodeStorage {
		t.Errorf("got %v", err)
	}
	if err := b.Allow("other"); err != nil {
		t.Errorf("without a budget: %v", err)
	}
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ from, to, want, fault string }{
		{"", "", "2026-11-01 2026-11-29", ""},
		{"2026-01-31", "", "2026-01-31 2026-11-29", ""},
		{"2026-01-31", "2026-02-01", "2026-01-31 2026-02-01", ""},
		{"yesterday", "2026-13-01", "", "to is"},
		{"2026-12-01", "", "", "before the first"},
	} {
		from, to, err := usage.Period(c.from, c.to, now)
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if got := from.Format(time.DateOnly) + " " + to.Format(time.DateOnly); got != c.want || err != nil {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}
