// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"glovebox/internal/sandbox"
)

// Config bounds a pool. Every field is required.
type Config struct {
	// Min and Max bound the ready sandboxes of one class; Total bounds those of all classes together.
	Min, Max, Total int
	// Fillers is how many are made at the same time. Making one is mostly waiting for the kernel; what it computes has a
	// low weight.
	Fillers int
	// MaxAge is how long a sandbox may stay ready: older ones are replaced, since they share the state of an old zygote.
	MaxAge time.Duration
	// Window is the time over which demand is counted; Forget is how long a class is kept after its last request.
	Window, Forget time.Duration
	// Retry is the pause after a sandbox could not be made.
	Retry time.Duration
	// Pause is how long after a request a shelf that still holds half of its target is left alone: who was just served
	// has the processors first.
	Pause time.Duration
	// Check bounds the look at a sandbox before it is handed out.
	Check time.Duration
	// Keep are classes that are kept at Min from the start and never forgotten.
	Keep  []sandbox.Class
	NewID func() sandbox.ID
	Now   func() time.Time
	Log   *slog.Logger
}

func (c Config) validate() error {
	if c.Fillers < 1 || c.Min < 1 || c.Max < c.Min || c.Total < c.Max || c.MaxAge <= 0 || c.Window <= 0 || c.Forget <= 0 || c.Retry <= 0 || c.Pause <= 0 ||
		c.Check <= 0 || c.NewID == nil || c.Now == nil || c.Log == nil {
		return fmt.Errorf("pool: sizes must be 1 <= min <= max <= total, times positive, and ids, clock and log given: %+v",
			struct{ Min, Max, Total int }{c.Min, c.Max, c.Total})
	}
	return nil
}

// Checker is what a sandbox may offer: a quick sign of life.
type Checker interface {
	Check(ctx context.Context) error
}

// Stats are counters since the start, and the sandboxes that are ready now.
type Stats struct {
	Hits, Misses, Filled, FillFailures, Expired, Unfit int64
	Ready                                              map[sandbox.Class]int
}

// Pool implements sandbox.Backend in front of another.
type Pool struct {
	backend sandbox.Backend
	config  Config
	wake    chan struct{} // tells the filler that something changed
	stop    context.CancelCauseFunc
	done    chan struct{}
	reaping sync.WaitGroup

	mu     sync.Mutex
	shelf  map[sandbox.Class]*shelf
	handed map[sandbox.ID]sandbox.Sandbox // by the id the caller gave
	stats  Stats
	closed bool
	// filling counts the fillers at work.
	filling int
}

// shelf holds the ready sandboxes of one class, the oldest first.
type shelf struct {
	ready []item
	// asked are the times of requests within the window.
	asked []time.Time
	last  time.Time
	keep  bool
	// filling counts those that are being made.
	filling int
	// notBefore delays the next attempt after a failure.
	notBefore time.Time
}

type item struct {
	sandbox.Sandbox
	made time.Time
}

var errClosed = errors.New("the pool is closed")

// New starts a pool in front of the backend, which it closes when it is closed.
func New(backend sandbox.Backend, config Config) (*Pool, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(context.Background())
	p := &Pool{
		backend: backend, config: config, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
		shelf: make(map[sandbox.Class]*shelf), handed: make(map[sandbox.ID]sandbox.Sandbox),
	}
	for _, class := range config.Keep {
		p.shelf[class] = &shelf{keep: true, last: config.Now()}
	}
	go p.fill(ctx)
	p.poke()
	return p, nil
}

// Name is the backend's: to users a pool is not a backend of its own.
func (p *Pool) Name() string { return p.backend.Name() }

// Pooled says that sandboxes stand ready here.
func (p *Pool) Pooled() bool { return true }

// Probe asks the backend.
func (p *Pool) Probe(ctx context.Context) (sandbox.Capabilities, error) { return p.backend.Probe(ctx) }

// Leftovers asks the backend.
func (p *Pool) Leftovers(ctx context.Context) iter.Seq2[sandbox.Handle, error] {
	return p.backend.Leftovers(ctx)
}

// Reclaim asks the backend.
func (p *Pool) Reclaim(ctx context.Context, handle sandbox.Handle) error {
	return p.backend.Reclaim(ctx, handle)
}

// Create hands out a ready sandbox of the class, or makes one. The handle of a pooled sandbox has the id it was made
// with; calling again with the same id returns the same sandbox as long as it lives.
func (p *Pool) Create(ctx context.Context, id sandbox.ID, class sandbox.Class) (sandbox.Sandbox, error) {
	if class.Warm == sandbox.WarmNone || !id.Valid() {
		return p.backend.Create(ctx, id, class)
	}
	for {
		taken, err := p.take(id, class)
		if err != nil {
			return nil, err
		}
		if taken == nil {
			return p.backend.Create(ctx, id, class)
		}
		if err := p.check(ctx, taken.Sandbox); err != nil {
			p.unfit(id, taken.Sandbox, err)
			continue
		}
		return taken, nil
	}
}

// take removes the oldest ready sandbox of the class from its shelf, or says that there is none.
func (p *Pool) take(id sandbox.ID, class sandbox.Class) (*lent, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("pool: %w: %w", sandbox.ErrUnavailable, errClosed)
	}
	if already, ok := p.handed[id].(*lent); ok {
		return already, nil
	}
	s := p.shelf[class]
	if s == nil {
		s = &shelf{}
		p.shelf[class] = s
	}
	now := p.config.Now()
	s.last = now
	s.asked = append(s.asked, now)
	defer p.poke()
	if len(s.ready) == 0 && class.Warm == sandbox.WarmChart {
		// Without the chart, but at once.
		class.Warm = sandbox.WarmPlain
		if plain := p.shelf[class]; plain != nil {
			s = plain
		}
	}
	if len(s.ready) == 0 {
		p.stats.Misses++
		return nil, nil //nolint:nilnil // none is ready: no error
	}
	first := s.ready[0]
	s.ready = s.ready[1:]
	p.stats.Hits++
	out := &lent{Sandbox: first.Sandbox, pool: p, id: id}
	p.handed[id] = out
	return out, nil
}

func (p *Pool) check(ctx context.Context, box sandbox.Sandbox) error {
	checker, ok := box.(Checker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.Check, errors.New("a ready sandbox did not answer"))
	defer cancel()
	return checker.Check(ctx)
}

// unfit throws a ready sandbox away that gave no sign of life.
func (p *Pool) unfit(id sandbox.ID, box sandbox.Sandbox, why error) {
	p.config.Log.Warn("a ready sandbox was not fit to be handed out", "id", box.Handle().ID, "error", why)
	p.mu.Lock()
	delete(p.handed, id)
	p.stats.Unfit++
	p.mu.Unlock()
	p.destroy(box)
}

// destroy ends a sandbox without making anybody wait for it.
func (p *Pool) destroy(box sandbox.Sandbox) {
	p.reaping.Go(func() {
		if err := box.Destroy(context.Background()); err != nil {
			p.config.Log.Error("a ready sandbox could not be destroyed", "id", box.Handle().ID, "error", err)
		}
	})
}

// Stats returns the counters.
func (p *Pool) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := p.stats
	stats.Ready = make(map[sandbox.Class]int, len(p.shelf))
	for class, s := range p.shelf {
		stats.Ready[class] = len(s.ready)
	}
	return stats
}

// Close destroys what is ready and closes the backend.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	p.stop(errClosed)
	<-p.done
	p.mu.Lock()
	for _, s := range p.shelf {
		for _, ready := range s.ready {
			p.destroy(ready.Sandbox)
		}
		s.ready = nil
	}
	p.mu.Unlock()
	p.reaping.Wait()
	return p.backend.Close()
}

// poke wakes the filler.
func (p *Pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// lent is a sandbox that was handed out. It is forgotten when it is destroyed.
type lent struct {
	sandbox.Sandbox
	pool *Pool
	id   sandbox.ID
}

// Ready says that the sandbox stood ready when it was asked for.
func (*lent) Ready() bool { return true }

// Destroy destroys the sandbox and forgets it.
func (l *lent) Destroy(ctx context.Context) error {
	l.pool.mu.Lock()
	delete(l.pool.handed, l.id)
	l.pool.mu.Unlock()
	return l.Sandbox.Destroy(ctx)
}
