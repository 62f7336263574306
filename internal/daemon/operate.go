// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/metrics"
	"glovebox/internal/pool"
	"glovebox/internal/sandbox"
	"glovebox/internal/usage"
)

func (s *server) perMinute(tenant string) int { return s.live.Load().TenantOf(tenant).PerMinute }

func (s *server) budget(tenant string) usage.Budget { return BudgetOf(*s.live.Load(), tenant) }

// BudgetOf is what a tenant may use in a month.
func BudgetOf(c config.Config, tenant string) usage.Budget {
	b := c.TenantOf(tenant).Budget
	limits := make(map[string]int64)
	if b.Runs != nil {
		limits["runs"] = *b.Runs
	}
	if b.CPU != nil {
		limits["cpu"] = time.Duration(*b.CPU).Microseconds()
	}
	if b.MemorySeconds != nil {
		limits["memory_mib_seconds"] = *b.MemorySeconds
	}
	if b.Stored != nil {
		limits["stored"] = int64(*b.Stored)
	}
	return usage.Budget{Limits: limits, Warn: b.Warn}
}

// books keep what tenants use and what happens once the server serves. What it runs before, to prove its limits, is nobody's.
type books struct {
	open    atomic.Bool
	account *usage.Account
	metrics *metrics.Metrics
}

// Allow is engine.Account's.
func (b *books) Allow(tenant string) error {
	if !b.open.Load() {
		return nil
	}
	return b.account.Allow(tenant)
}

// Spend is engine.Account's.
func (b *books) Spend(spent engine.Spent) {
	if b.open.Load() {
		b.account.Spend(spent)
	}
}

// Ended is engine.Observer's.
func (b *books) Ended(x *engine.Execution) {
	if b.open.Load() {
		b.metrics.Ended(x)
	}
}

// Refused is engine.Observer's.
func (b *books) Refused(code engine.Code) {
	if b.open.Load() {
		b.metrics.Refused(code)
	}
}

// readyPatience is how long a check may take.
const readyPatience = 2 * time.Second

// ready checks what must be well to take new work.
func (s *server) ready(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyPatience, errors.New("the check took too long"))
	defer cancel()
	checks := map[string]error{"database": s.system.database.Ping(ctx), "backend": available(ctx, s.system.backends), "drain": nil}
	if s.system.Engine.Load().Draining {
		checks["drain"] = errors.New("the server is shutting down")
	}
	return checks
}

// available reports why none of the backends can make sandboxes.
func available(ctx context.Context, backends []sandbox.Backend) error {
	var faults []error
	for _, backend := range backends {
		capabilities, err := backend.Probe(ctx)
		if err == nil && capabilities.Available {
			return nil
		}
		faults = append(faults, err, errors.New(backend.Name()+": "+capabilities.Why))
	}
	return errors.Join(faults...)
}

// watch has the metrics read what the system does.
func (s *server) watch() error {
	pools := make(map[string]func() pool.Stats)
	for _, backend := range s.system.backends {
		if pooled, ok := backend.(*pool.Pool); ok {
			pools[pooled.Name()] = pooled.Stats
		}
	}
	return s.metrics.Watch(metrics.Source{Load: s.system.Engine.Load, Pools: pools})
}

// follow takes new configurations over until stop is called.
func (s *server) follow(ctx context.Context) (stop func()) {
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-s.options.Reload: // nil waits for ever
				s.reload(ctx)
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-over
	}
}

// reload puts a new configuration in force, as far as a running server can; a wrong one leaves all as it was.
func (s *server) reload(ctx context.Context) {
	if s.options.Reread == nil {
		return
	}
	next, err := s.options.Reread()
	if err == nil {
		err = s.change(next)
	}
	if err != nil {
		s.log.ErrorContext(ctx, "the new configuration is not valid: the old one stays in force", "error", err)
		return
	}
	taken, _ := s.live.Load().Changes(next)
	_, restart := s.config.Changes(next)
	s.live.Store(&next)
	s.log.WarnContext(ctx, "the configuration was read again", "changed", taken, "need_a_restart", restart)
}

func (s *server) change(c config.Config) error {
	level, err := c.Log.SlogLevel()
	if err != nil {
		return err
	}
	err = s.system.Engine.Change(engine.Settings{
		Policy: c.Policy, Maxima: c.Maxima.Limits(), MaxRunning: c.MaxRunning, MaxQueued: c.MaxQueued, QueuedEach: c.MaxQueuedEach,
		QueueWait: time.Duration(c.QueueWait), Quota: func(tenant string) auth.Quota { return c.TenantOf(tenant).Quota() },
	})
	if err != nil {
		return err
	}
	if s.options.Level != nil {
		s.options.Level.Set(level)
	}
	for _, g := range s.gateways {
		g.SetHosts(hosts(c))
	}
	return nil
}
