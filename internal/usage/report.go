// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"glovebox/internal/store"
)

// Quantity is one thing that is counted and may have a budget.
type Quantity struct {
	Name string
	Of   func(store.Usage) int64
	Text func(int64) string
}

// Quantities returns those that may have a budget. Processor time is counted in microseconds.
func Quantities() []Quantity {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []Quantity{
		{"runs", func(u store.Usage) int64 { return u.Runs }, number},
		{"cpu", func(u store.Usage) int64 { return u.CPU }, func(n int64) string { return (time.Duration(n) * time.Microsecond).String() }},
		{"memory_mib_seconds", func(u store.Usage) int64 { return u.MemorySeconds }, number},
		{"stored", func(u store.Usage) int64 { return u.Stored }, func(n int64) string { return number(n) + " bytes" }},
	}
}

// Report is what a tenant used from one day to another, both included.
type Report struct {
	Tenant string `json:"tenant"`
	From   string `json:"from"`
	To     string `json:"to"`
	store.Usage
	// Budgets are those of the current month.
	Budgets []Spending `json:"budgets,omitempty"`
}

// Spending is how much of a budget is used.
type Spending struct {
	Name  string `json:"name"`
	Used  int64  `json:"used"`
	Limit int64  `json:"limit"`
	// State is ok, warn or stop.
	State string `json:"state"`
}

// Period reads the days of a report; the default is from the first of the month to today.
func Period(from, to string, now time.Time) (first, last time.Time, err error) {
	first, last = firstOf(now), now.UTC()
	var faults []error
	for name, day := range map[string]struct {
		text string
		at   *time.Time
	}{"from": {from, &first}, "to": {to, &last}} {
		if day.text == "" {
			continue
		}
		at, err := time.Parse(time.DateOnly, day.text)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s is %.40q: write a day as 2026-01-31", name, day.text))
		}
		*day.at = at
	}
	if len(faults) == 0 && last.Before(first) {
		faults = append(faults, fmt.Errorf("from %s to %s: the second day is before the first", first.Format(time.DateOnly), last.Format(time.DateOnly)))
	}
	return first, last, errors.Join(faults...)
}

// Report returns what a tenant used.
func (a *Account) Report(ctx context.Context, tenant string, from, to time.Time) (Report, error) {
	used, err := a.Store.Usage(ctx, tenant, from, to)
	if err != nil {
		return Report{}, err
	}
	report := Report{Tenant: tenant, From: from.UTC().Format(time.DateOnly), To: to.UTC().Format(time.DateOnly), Usage: used}
	budget, now := a.Budget(tenant), a.Now()
	if len(budget.Limits) == 0 {
		return report, nil
	}
	month, err := a.Store.Usage(ctx, tenant, firstOf(now), now)
	if err != nil {
		return Report{}, err
	}
	for _, q := range Quantities() {
		limit, ok := budget.Limits[q.Name]
		if !ok {
			continue
		}
		one := Spending{Name: q.Name, Used: q.Of(month), Limit: limit, State: "ok"}
		switch {
		case one.Used >= limit:
			one.State = "stop"
		case above(one.Used, limit, budget.Warn):
			one.State = "warn"
		}
		report.Budgets = append(report.Budgets, one)
	}
	return report, nil
}
