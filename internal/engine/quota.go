// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/sandbox"
)

// Settings are what can change while an engine works. What runs and waits goes on under what was in force when it came.
type Settings struct {
	// Policy is the default of a request that names none; empty is the first preset.
	Policy string
	// Maxima are the most that a request may ask for.
	Maxima sandbox.Limits
	// MaxRunning is how many executions run at once, MaxQueued how many wait, QueueWait how long.
	MaxRunning int
	MaxQueued  int
	QueueWait  time.Duration
	// QueuedEach is how many executions of one tenant may wait; zero is MaxQueued.
	QueuedEach int
	// Quota is what a tenant may do at once, by its name; a field that is zero, or a nil Quota, is the engine's own limit.
	Quota func(tenant string) auth.Quota
}

func (s Settings) validate() error {
	var faults []error
	if s.MaxRunning < 1 || s.MaxQueued < 0 || s.QueuedEach < 0 || s.QueueWait <= 0 {
		faults = append(faults, errors.New("engine: MaxRunning and QueueWait must be above zero, MaxQueued and QueuedEach not below"))
	}
	if err := s.Maxima.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("engine: Maxima: %w", err))
	}
	return errors.Join(faults...)
}

// quota is what a tenant may do at once. Where it says nothing the queue's bounds and MaxHeld are the limit.
func (e *Engine) quota(tenant string) auth.Quota {
	if quota := e.settings.Load().Quota; quota != nil {
		return quota(tenant)
	}
	return auth.Quota{}
}

// amount is what is alive of somebody, or would be.
type amount struct {
	running, sandboxes int
	memory             int64
}

func (a amount) plus(b amount) amount {
	return amount{a.running + b.running, a.sandboxes + b.sandboxes, a.memory + b.memory}
}

func (a amount) minus(b amount) amount {
	return a.plus(amount{-b.running, -b.sandboxes, -b.memory})
}

// account is what amounts are counted for: a tenant as a whole, with an empty key, and each of its keys.
type account struct{ tenant, key string }

// ledger counts what is alive of each tenant and each key. Looking and taking are one step: a quota is exact however many
// ask at once. An account of which nothing is alive takes no memory.
type ledger struct {
	mu    sync.Mutex
	alive map[account]amount
}

// take counts what somebody asks for until give is called, or says which quota stands against it.
func (l *ledger) take(who *auth.Principal, tenant auth.Quota, want amount) (give func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alive == nil {
		l.alive = make(map[account]amount)
	}
	accounts := []account{{tenant: who.Tenant}}
	if err := exceeds("tenant", l.alive[accounts[0]], want, tenant); err != nil {
		return nil, err
	}
	if who.Key != "" {
		accounts = append(accounts, account{who.Tenant, who.Key})
		if err := exceeds("key", l.alive[accounts[1]], want, who.Quota); err != nil {
			return nil, err
		}
	}
	for _, a := range accounts {
		l.alive[a] = l.alive[a].plus(want)
	}
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, a := range accounts {
			if l.alive[a] = l.alive[a].minus(want); l.alive[a] == (amount{}) {
				delete(l.alive, a)
			}
		}
	}), nil
}

// quotaRetry is when one of a tenant's own runs is likely to be over.
const quotaRetry = 2 * time.Second

// exceeds says which quota is passed when want is added to what is alive. A field that is zero is bounded elsewhere: a key by
// its tenant, a tenant by the engine.
func exceeds(whose string, alive, want amount, quota auth.Quota) error {
	after := alive.plus(want)
	refuse := func(name string, value, limit int64) error {
		return &Problem{Code: CodeQuota, RetryAfter: quotaRetry, Text: fmt.Sprintf(
			"quota %s of this %s is %d, and this request would make it %d: wait until something of it has ended, or have the quota raised",
			name, whose, limit, value)}
	}
	switch {
	case want.running > 0 && quota.Running > 0 && after.running > quota.Running:
		return refuse("running", int64(after.running), int64(quota.Running))
	case want.sandboxes > 0 && quota.Sandboxes > 0 && after.sandboxes > quota.Sandboxes:
		return refuse("sandboxes", int64(after.sandboxes), int64(quota.Sandboxes))
	case want.memory > 0 && quota.Memory > 0 && after.memory > quota.Memory:
		return refuse("memory", after.memory, quota.Memory)
	}
	return nil
}

// enter counts an execution and gives it its place or its spot in the queue, both until leave. A cell counts as running; its
// memory is that of its sandbox, which is counted already.
func (e *Engine) enter(p *plan) error {
	want := amount{running: 1, memory: p.decision.Limits.Memory}
	if p.session != nil {
		want.memory = 0
	}
	give, err := e.admission(p.request.Who, want)
	if err != nil {
		return err
	}
	if p.ticket, err = e.gate.join(p.request.Who.Tenant); err != nil {
		give()
		return err
	}
	p.leave = func() {
		p.ticket.leave()
		give()
	}
	return nil
}

// admission takes the quotas of what is asked for, and refuses when the tenant's budget is spent.
func (e *Engine) admission(who *auth.Principal, want amount) (give func(), err error) {
	if e.Account != nil {
		if err := e.Account.Allow(who.Tenant); err != nil {
			return nil, err
		}
	}
	return e.ledger.take(who, e.quota(who.Tenant), want)
}

// Load is what an engine does at the moment.
type Load struct {
	Running, Waiting, Held int
	Draining               bool
}

// Load returns what the engine does at the moment.
func (e *Engine) Load() Load {
	running, waiting := e.gate.load()
	e.mu.Lock()
	defer e.mu.Unlock()
	return Load{Running: running, Waiting: waiting, Held: len(e.held), Draining: e.closed}
}

// Change puts other settings in force for what comes from now on.
func (e *Engine) Change(s Settings) error {
	if err := s.validate(); err != nil {
		return err
	}
	e.settings.Store(&s)
	each := s.QueuedEach
	if each == 0 {
		each = s.MaxQueued
	}
	e.gate.set(s.MaxRunning, s.MaxQueued, each, s.QueueWait)
	return nil
}
