// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"glovebox/internal/auth"
	"glovebox/internal/policy"
)

// Tenant is what a tenant may do. In Tenants, what is left out is as in Tenant.
type Tenant struct {
	// PerMinute is how many requests that start something each key may send a minute.
	PerMinute int `yaml:"per_minute,omitempty"`
	// Running is how many executions may run or wait at once, Sandboxes how many sandboxes live, Memory the sum of the
	// memory limits of all of them.
	Running   int    `yaml:"running,omitempty"`
	Sandboxes int    `yaml:"sandboxes,omitempty"`
	Memory    Size   `yaml:"memory,omitempty"`
	Budget    Budget `yaml:"budget"`
}

// Budget is what a tenant may use in a calendar month (UTC). What is left out has no budget.
type Budget struct {
	Runs *int64    `yaml:"runs,omitempty"`
	CPU  *Duration `yaml:"cpu,omitempty"`
	// MemorySeconds are MiB times seconds.
	MemorySeconds *int64 `yaml:"memory_mib_seconds,omitempty"`
	Stored        *Size  `yaml:"stored,omitempty"`
	// Warn is the share in percent at which the log says so.
	Warn int `yaml:"warn_percent,omitempty"`
}

func defaultTenant() Tenant {
	return Tenant{PerMinute: 12_000, Running: 256, Sandboxes: 48, Memory: Size(64 * policy.GiB), Budget: Budget{Warn: 80}}
}

// Quota returns what the tenant may do at once.
func (t Tenant) Quota() auth.Quota {
	return auth.Quota{PerMinute: t.PerMinute, Running: t.Running, Sandboxes: t.Sandboxes, Memory: int64(t.Memory)}
}

// TenantOf returns what the tenant of this name may do.
func (c Config) TenantOf(name string) Tenant {
	t, own := c.Tenant, c.Tenants[name]
	replace(&t.PerMinute, own.PerMinute)
	replace(&t.Running, own.Running)
	replace(&t.Sandboxes, own.Sandboxes)
	replace(&t.Memory, own.Memory)
	replace(&t.Budget.Warn, own.Budget.Warn)
	replace(&t.Budget.Runs, own.Budget.Runs)
	replace(&t.Budget.CPU, own.Budget.CPU)
	replace(&t.Budget.MemorySeconds, own.Budget.MemorySeconds)
	replace(&t.Budget.Stored, own.Budget.Stored)
	return t
}

func replace[T comparable](value *T, own T) {
	var none T
	if own != none {
		*value = own
	}
}

func (c Config) validateTenants() error {
	faults := []error{c.Tenant.validate("tenant", 1)}
	for _, name := range slices.Sorted(maps.Keys(c.Tenants)) {
		if !auth.ValidTenant(name) {
			faults = append(faults, fmt.Errorf("tenants: %.80q is not the name of a tenant: use lower-case letters, digits and hyphens", name))
		}
		faults = append(faults, c.Tenants[name].validate("tenants."+name, 0))
	}
	return errors.Join(faults...)
}

// validate checks the fields against the least that each may be.
func (t Tenant) validate(where string, least int64) error {
	var faults []error
	check := func(name string, value, least int64) {
		if value < least {
			faults = append(faults, fmt.Errorf("%s.%s is %d: it must be at least %d", where, name, value, max(1, least)))
		}
	}
	check("per_minute", int64(t.PerMinute), least)
	check("running", int64(t.Running), least)
	check("sandboxes", int64(t.Sandboxes), least)
	check("memory", int64(t.Memory), least)
	check("budget.warn_percent", int64(t.Budget.Warn), least)
	for name, value := range t.Budget.limits() {
		check("budget."+name, value, 1)
	}
	return errors.Join(faults...)
}

// limits returns the budgets that there are, by name.
func (b Budget) limits() map[string]int64 {
	limits := make(map[string]int64)
	add := func(name string, value *int64) {
		if value != nil {
			limits[name] = *value
		}
	}
	add("runs", b.Runs)
	add("cpu", (*int64)(b.CPU))
	add("memory_mib_seconds", b.MemorySeconds)
	add("stored", (*int64)(b.Stored))
	return limits
}
