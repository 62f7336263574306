// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Scope is one thing that a key may do.
type Scope string

// The scopes, from what most need to what few may have.
const (
	// ScopeRun runs code and reads what came of it.
	ScopeRun Scope = "run"
	// ScopeSandboxes makes, uses and ends sandboxes that live between executions.
	ScopeSandboxes Scope = "sandboxes"
	// ScopeFiles reads and writes files of sandboxes and uploads.
	ScopeFiles Scope = "files"
	// ScopeAudit reads the code of executions and what was recorded about them; every such reading is recorded.
	ScopeAudit Scope = "audit"
	// ScopeAdmin makes and revokes keys, reads usage, and deletes tenants.
	ScopeAdmin Scope = "admin"
)

// Scopes returns all scopes.
func Scopes() []Scope {
	return []Scope{ScopeRun, ScopeSandboxes, ScopeFiles, ScopeAudit, ScopeAdmin}
}

// DefaultScopes are those of a key that names none.
func DefaultScopes() []Scope { return []Scope{ScopeRun, ScopeSandboxes, ScopeFiles} }

// ParseScopes reads a list of scopes; an empty one is DefaultScopes.
func ParseScopes(names []string) ([]Scope, error) {
	if len(names) == 0 {
		return DefaultScopes(), nil
	}
	var scopes []Scope
	for _, name := range names {
		scope := Scope(strings.TrimSpace(name))
		if !slices.Contains(Scopes(), scope) {
			return nil, fmt.Errorf("scope %.40q is not known: choose from %s", name, joined(Scopes()))
		}
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

func joined(scopes []Scope) string {
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	return strings.Join(names, ", ")
}

// DefaultTenant is that of keys that name none.
const DefaultTenant = "default"

// MaxName bounds the names of tenants and keys, in bytes.
const MaxName = 64

// ValidTenant reports whether a tenant may have this name: lower-case letters, digits and inner hyphens.
func ValidTenant(name string) bool {
	if name == "" || len(name) > MaxName || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// Quota bounds what a key's callers do at once. Zero of a field is the server's own limit, never none.
type Quota struct {
	// PerMinute is how many requests that start work may come a minute.
	PerMinute int `json:"per_minute,omitempty"`
	// Running is how many executions may run at once.
	Running int `json:"running,omitempty"`
	// Sandboxes is how many sandboxes may live at once.
	Sandboxes int `json:"sandboxes,omitempty"`
	// Memory is the sum of the memory limits of all that is alive, in bytes.
	Memory int64 `json:"memory,omitempty"`
}

// Valid reports whether no field is below zero.
func (q Quota) Valid() bool {
	return q.PerMinute >= 0 && q.Running >= 0 && q.Sandboxes >= 0 && q.Memory >= 0
}

// Key is what is kept of a key.
type Key struct {
	ID     string  `json:"id"`
	Tenant string  `json:"tenant"`
	Name   string  `json:"name"`
	Scopes []Scope `json:"scopes"`
	Hash   Hash    `json:"-"`
	// Policy is the only policy that the key may use; empty allows all. Images are those it may use; none allows all.
	Policy string   `json:"policy,omitempty"`
	Images []string `json:"images,omitempty"`
	Quota  Quota    `json:"quota,omitzero"`
	// Created and the following are in UTC; a zero Expires is never, a zero Revoked not revoked.
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
	LastUsed time.Time `json:"last_used,omitzero"`
}

// Principal is the caller that a request is carried out for.
type Principal struct {
	// Tenant owns everything that the request makes.
	Tenant string
	// Key names the key in logs and records. It is empty for the operator's own token.
	Key    string
	scopes []Scope
	Policy string
	Images []string
	Quota  Quota
}

// Operator is the principal of the token in the server's data folder, which only its owner can read.
func Operator() *Principal { return &Principal{Tenant: DefaultTenant, scopes: Scopes()} }

// Of is the principal of a key.
func Of(key Key) *Principal {
	return &Principal{
		Tenant: key.Tenant, Key: key.ID, scopes: key.Scopes, Policy: key.Policy, Images: key.Images, Quota: key.Quota,
	}
}

// Allows says what stands against a policy and an image, which a request names or takes as the default.
func (p *Principal) Allows(policy, image string) error {
	var faults []error
	if p.Policy != "" && policy != p.Policy {
		faults = append(faults, fmt.Errorf("this key may use the policy %q only, and the request has %.40q", p.Policy, policy))
	}
	if len(p.Images) > 0 && !slices.Contains(p.Images, image) {
		faults = append(faults, fmt.Errorf("this key may use the images %s only, and the request has %.80q", strings.Join(p.Images, ", "), image))
	}
	return errors.Join(faults...)
}

// May reports whether the principal has the scope.
func (p *Principal) May(scope Scope) bool { return slices.Contains(p.scopes, scope) }
