// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/daemon"
	"glovebox/internal/store"
	account "glovebox/internal/usage"
)

type usageCommand struct {
	Tenant string `help:"Whose usage." default:"default" placeholder:"NAME"`
	From   string `help:"The first day, as 2026-01-31 in UTC (default: the first of this month)." placeholder:"DAY"`
	To     string `help:"The last day (default: today)." placeholder:"DAY"`
	JSON   bool   `help:"Print one JSON object." name:"json"`
}

// Run shows what a tenant used.
func (c usageCommand) Run(s *session) error {
	if !auth.ValidTenant(c.Tenant) {
		return usage("tenant %.80q: use up to %d lower-case letters, digits and hyphens", c.Tenant, auth.MaxName)
	}
	from, to, err := account.Period(c.From, c.To, time.Now())
	if err != nil {
		return usage("%w", err)
	}
	return s.withDatabase(func(database *store.Store) error {
		kept := &account.Account{
			Store: database, Log: s.log, Now: time.Now, Budget: func(tenant string) account.Budget { return daemon.BudgetOf(s.config, tenant) },
		}
		report, err := kept.Report(s.ctx, c.Tenant, from, to)
		if err != nil {
			return err
		}
		if c.JSON {
			return json.NewEncoder(s.Stdout).Encode(report)
		}
		return s.showUsage(report)
	})
}

func (s *session) showUsage(report account.Report) error {
	table := tabwriter.NewWriter(s.Stdout, 2, 8, 2, ' ', 0)
	fmt.Fprintf(table, "tenant %s, %s to %s\n", report.Tenant, report.From, report.To)
	budgets := make(map[string]account.Spending)
	for _, one := range report.Budgets {
		budgets[one.Name] = one
	}
	fmt.Fprintln(table, "WHAT\tUSED\tBUDGET OF THIS MONTH")
	for _, q := range account.Quantities() {
		budget := "-"
		if one, ok := budgets[q.Name]; ok {
			budget = fmt.Sprintf("%s of %s: %s", q.Text(one.Used), q.Text(one.Limit), one.State)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", q.Name, q.Text(q.Of(report.Usage)), budget)
	}
	return table.Flush()
}
