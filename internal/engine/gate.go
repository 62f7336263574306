// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// gate lets so many executions run, and so many wait. A place that becomes free goes to the tenants that wait in turn, one
// execution each: who asks for much waits behind the own, not before others.
type gate struct {
	now func() time.Time

	mu sync.Mutex
	// places is how many may run, queue how many may wait in all and each of one tenant, wait how long.
	places, queue, each int
	wait                time.Duration

	taken, waiting int
	lines          map[string][]*ticket // those that wait, by tenant; none is empty
	turn           []string             // the tenants that wait, the next one first
	// stay is how long an execution held its place lately.
	stay time.Duration
}

// ticket is an execution's place, or its spot in the queue.
type ticket struct {
	gate    *gate
	tenant  string
	ready   chan struct{} // closed when the place is there
	since   time.Time     // when it was
	granted bool          // guarded by the gate's mu, as is over
	over    bool
}

func newGate(now func() time.Time) *gate {
	return &gate{now: now, lines: make(map[string][]*ticket), stay: time.Second}
}

// set changes the bounds. What runs and waits stays.
func (g *gate) set(places, queue, each int, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places, g.queue, g.each, g.wait = places, queue, each, wait
	g.serve()
}

// join takes a place, or a spot in the queue. The error is a Problem: both are full.
func (g *gate) join(tenant string) (*ticket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &ticket{gate: g, tenant: tenant, ready: make(chan struct{})}
	switch line := g.lines[tenant]; {
	case g.taken < g.places:
		g.grant(t)
	case g.waiting >= g.queue:
		return nil, g.full(fmt.Sprintf("all %d places are taken and %d executions wait already", g.places, g.waiting))
	case len(line) >= g.each:
		return nil, g.full(fmt.Sprintf("%d executions of this tenant wait already, the most that may", len(line)))
	default:
		if len(line) == 0 {
			g.turn = append(g.turn, tenant)
		}
		g.lines[tenant] = append(line, t)
		g.waiting++
	}
	return t, nil
}

func (g *gate) grant(t *ticket) {
	t.granted, t.since = true, g.now()
	g.taken++
	close(t.ready)
}

// serve gives free places to those whose turn it is.
func (g *gate) serve() {
	for g.taken < g.places && len(g.turn) > 0 {
		tenant := g.turn[0]
		first := g.lines[tenant][0]
		g.remove(first)
		if len(g.lines[tenant]) > 0 { // to the end of the round
			g.turn = append(g.turn[1:], tenant)
		}
		g.grant(first)
	}
}

// remove takes a ticket out of the queue.
func (g *gate) remove(t *ticket) {
	line := g.lines[t.tenant]
	at := slices.Index(line, t)
	line = slices.Delete(line, at, at+1)
	g.lines[t.tenant] = line
	g.waiting--
	if len(line) == 0 {
		delete(g.lines, t.tenant)
		at := slices.Index(g.turn, t.tenant)
		g.turn = slices.Delete(g.turn, at, at+1)
	}
}

// Retry-After is at least a second, and no more than what a client would not believe.
const (
	leastRetry = time.Second
	mostRetry  = time.Minute
)

// full is a refusal that says when a spot is likely to be free.
func (g *gate) full(why string) *Problem {
	return &Problem{
		Code: CodeOverloaded, Text: why + ": try again later",
		RetryAfter: min(max(g.stay*time.Duration(g.waiting+1)/time.Duration(g.places), leastRetry), mostRetry),
	}
}

var errQueueWait = errors.New("no place became free in time")

// enter waits for the place. The error is a Problem of CodeOverloaded, or the cause with which ctx ended; in either case the
// ticket must still be left.
func (t *ticket) enter(ctx context.Context) error {
	select {
	case <-t.ready:
		return nil
	default:
	}
	g := t.gate
	g.mu.Lock()
	wait := g.wait
	g.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-t.ready:
		return nil
	case <-timer.C:
		g.mu.Lock()
		defer g.mu.Unlock()
		problem := g.full(fmt.Sprintf("all %d places stayed taken for %v", g.places, wait))
		problem.Err = errQueueWait
		return problem
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the place or the spot back; a second time it does nothing.
func (t *ticket) leave() {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case t.over:
		return
	case t.granted:
		g.taken--
		const weight = 8 // of what was before, against the newest
		g.stay += (g.now().Sub(t.since) - g.stay) / weight
		g.serve()
	default:
		g.remove(t)
	}
	t.over = true
}

// load is how many run, and how many wait.
func (g *gate) load() (running, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken, g.waiting
}
