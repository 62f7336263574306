// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"glovebox/internal/config"
)

const withTenants = `
tenant:
  per_minute: 100
  budget: {runs: 1000, cpu: 2h}
tenants:
  acme:
    running: 3
    memory: 4GiB
    budget: {runs: 5}
`

// TestTenantsDifferInWhatTheySay: all else is as for everybody.
func TestTenantsDifferInWhatTheySay(t *testing.T) {
	t.Parallel()
	c := config.Default(2)
	if err := c.Parse("test", []byte(withTenants)); err != nil {
		t.Fatal(err)
	}
	acme, other := c.TenantOf("acme"), c.TenantOf("other")
	if acme.Running != 3 || acme.Memory != 4<<30 || acme.PerMinute != 100 || *acme.Budget.Runs != 5 || time.Duration(*acme.Budget.CPU) != 2*time.Hour ||
		acme.Budget.Warn != 80 {
		t.Errorf("acme: %+v", acme)
	}
	if other.Running != config.Default(2).Tenant.Running || other.PerMinute != 100 || *other.Budget.Runs != 1000 || other.Budget.Stored != nil {
		t.Errorf("other: %+v", other)
	}
}

func TestTenantsAreChecked(t *testing.T) {
	t.Parallel()
	_, err := config.Load(env(), config.Flags{File: write(t, `
max_queued_each: 0
tenant: {per_minute: 0, running: -1, budget: {cpu: 0s}}
tenants:
  Big: {sandboxes: -1}
  small: {budget: {runs: 0}}
`)})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"max_queued_each is 0", "tenant.per_minute is 0", "tenant.running is -1", "tenant.budget.cpu is 0", `"Big" is not the name`,
		"tenants.Big.sandboxes is -1", "tenants.small.budget.runs is 0",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// TestPrintedIsReadAgain: what is printed means the same, and holds no secret.
func TestPrintedIsReadAgain(t *testing.T) {
	t.Parallel()
	c, err := config.Load(env("GLOVEBOX_TOKEN=a-very-long-secret-token", "GLOVEBOX_DATABASE=postgres://u:hidden-password@h/d"),
		config.Flags{File: write(t, withTenants), Hosts: []string{"a.example"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"a-very-long", "hidden-password"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s shows in\n%s", secret, text)
		}
	}
	again := config.Default(7)
	if err := again.Parse("printed", text); err != nil {
		t.Fatal(err, string(text))
	}
	c.Token, c.Database = "[hidden]", "[hidden]"
	if taken, restart := c.Changes(again); len(taken)+len(restart) > 0 || !reflect.DeepEqual(c.Maxima, again.Maxima) {
		t.Errorf("%v and %v differ in\n%s", taken, restart, text)
	}
}

// TestChangesAreSorted: what a server takes over, and what needs a new start.
func TestChangesAreSorted(t *testing.T) {
	t.Parallel()
	before := config.Default(2)
	after := before
	after.MaxRunning, after.Addr, after.Log.Level = 99, "127.0.0.1:1", "debug"
	taken, restart := before.Changes(after)
	if strings.Join(taken, " ") != "max_running log" || strings.Join(restart, " ") != "addr" {
		t.Errorf("%v, %v", taken, restart)
	}
	after.Log.Format = "json"
	if _, restart := before.Changes(after); strings.Join(restart, " ") != "addr log.format" {
		t.Errorf("%v", restart)
	}
}
