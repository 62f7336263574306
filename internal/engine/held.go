// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"glovebox/internal/sandbox"
)

// The limits of sandboxes that are held between executions.
const (
	// MaxHeld is how many may be alive at once.
	MaxHeld = 64
	// MaxSessions is how many sessions one may have.
	MaxSessions = 32
	// IdleLease is how long one may stay unused, and HardLease how long it lives at all, unless its Terms say otherwise.
	IdleLease = 5 * time.Minute
	HardLease = time.Hour
)

// MainSession is the session that a sandbox begins with.
const MainSession = "main"

// HeldState is what a held sandbox does.
type HeldState string

// The states: something is being done in it, or nothing. Processes of its own do not count.
const (
	HeldIdle HeldState = "idle"
	HeldBusy HeldState = "busy"
)

// Held describes a sandbox that lives between executions.
type Held struct {
	ID       sandbox.ID        `json:"id"`
	State    HeldState         `json:"state"`
	Backend  string            `json:"backend"`
	Image    string            `json:"image"`
	Policy   string            `json:"policy"`
	Language string            `json:"language"`
	Created  time.Time         `json:"created"`
	Sessions []string          `json:"sessions"`
	Metadata map[string]string `json:"metadata"`
	Limits   map[string]Limit  `json:"limits"`
	Lease    LeaseTerms        `json:"lease"`
	// IdleUntil is when it ends if nobody uses it, Until when it ends in any case.
	IdleUntil time.Time `json:"idle_until"`
	Until     time.Time `json:"until"`
}

// held is a sandbox that is alive between executions.
type held struct {
	*plan
	box   sandbox.Sandbox
	give  func()        // its quotas
	cells time.Duration // processor time of its cells; guarded by mu
	ended bool          // guarded by the engine's mu
	timer *time.Timer   // guarded by the engine's mu; nil until the sandbox is made

	// over closes when the sandbox is gone; left is what went wrong then.
	over chan struct{}
	left error

	mu        sync.Mutex
	terms     Terms
	sessions  map[string]*heldSession
	order     []string
	next      int
	idle      time.Time
	until     time.Time
	running   int
	watches   int
	why       error // why it ends, or ended
	inside    map[*context.CancelCauseFunc]bool
	processes processes
}

// Hold makes a sandbox that lives until Release or the end of its lease, with one open session. The request's Code is not
// run.
func (e *Engine) Hold(ctx context.Context, request Request) (_ Held, err error) {
	defer func() { err = e.refused(err) }()
	p, err := e.plan(&request)
	if err != nil {
		request.release()
		return Held{}, err
	}
	terms := request.Terms.orDefault()
	h := &held{
		plan: p, terms: terms, sessions: make(map[string]*heldSession), until: e.Now().Add(terms.Hard), over: make(chan struct{}),
		inside: make(map[*context.CancelCauseFunc]bool),
	}
	if err := e.admit(h); err != nil {
		p.releaseImage()
		request.release()
		return Held{}, err
	}
	defer e.work.Done()
	x := &execution{plan: p, engine: e, record: p.blank(StatusRunning), gather: &gather{}}
	ctx, leave := h.join(ctx)
	defer leave()
	session, err := x.setUp(ctx)
	request.release()
	h.box = x.box
	if err != nil {
		result := x.failure(ctx, err)
		err = errors.Join(err, e.drop(h, err))
		switch {
		case errors.Is(context.Cause(ctx), ErrShutdown):
			return Held{}, shuttingDown()
		case x.refused != nil:
			return Held{}, x.refused
		}
		return Held{}, &Problem{Code: CodeInternal, Text: "the sandbox could not be made: " + result.Detail, Err: err}
	}
	h.add(&heldSession{name: MainSession, spec: sandbox.OpenSpec{Language: request.Language}, created: e.Now(), live: session})
	h.touch(e.Now())
	e.mu.Lock()
	closed := e.closed
	if !closed {
		h.timer = time.AfterFunc(min(terms.Idle, terms.Hard), func() { e.expire(h) })
	}
	e.mu.Unlock()
	if closed {
		return Held{}, errors.Join(shuttingDown(), e.drop(h, ErrShutdown))
	}
	return h.describe(), nil
}

// join returns a context for what goes on in the sandbox: it ends with ctx and with the sandbox.
func (h *held) join(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why != nil {
		cancel(h.why)
	}
	h.inside[&cancel] = true
	return ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.inside, &cancel)
		cancel(nil)
	}
}

// end cancels what goes on in the sandbox. When it returns the contexts have ended: what the sandbox's own end does to them
// comes after the reason for it.
func (h *held) end(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == nil {
		h.why = why
	}
	for cancel := range h.inside {
		(*cancel)(h.why)
	}
}

func (h *held) ending() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why != nil
}

// admit gives the sandbox its place, and counts the making of it as work.
func (e *Engine) admit(h *held) (err error) {
	h.give, err = e.admission(h.request.Who, amount{sandboxes: 1, memory: h.decision.Limits.Memory})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.give()
		}
	}()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return shuttingDown()
	case len(e.held) >= MaxHeld:
		return &Problem{Code: CodeOverloaded, Text: fmt.Sprintf("%d sandboxes are held already: delete one, or try again later", MaxHeld)}
	}
	if e.held == nil {
		e.held = make(map[sandbox.ID]*held)
	}
	e.held[h.id] = h
	e.work.Add(1)
	return nil
}

// lookUp finds a tenant's sandbox that is alive.
func (e *Engine) lookUp(tenant string, id sandbox.ID) (*held, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.held[id]
	if text, known := e.expired.find(tenant, id); known {
		return nil, &Problem{Code: CodeExpired, Text: fmt.Sprintf("sandbox %s is gone: %s", id, text)}
	}
	if h == nil || h.timer == nil || h.request.Who.Tenant != tenant {
		return nil, notFound(fmt.Sprintf("there is no sandbox %q: it was never made, was deleted, or its lease ended long ago", clip(string(id), sandbox.MaxID)))
	}
	return h, nil
}

// Held describes a sandbox.
func (e *Engine) Held(tenant string, id sandbox.ID) (Held, error) {
	h, err := e.lookUp(tenant, id)
	if err != nil {
		return Held{}, err
	}
	return h.describe(), nil
}

// Release ends a sandbox and everything in it. When it returns nil nothing of it is left.
func (e *Engine) Release(tenant string, id sandbox.ID) error {
	h, err := e.lookUp(tenant, id)
	if err != nil {
		return err
	}
	if err := e.drop(h, ErrReleased); err != nil {
		return &Problem{Code: CodeInternal, Err: err, Text: fmt.Sprintf(
			"sandbox %s could not be ended; the next start of the server looks for it: %s", id, boundText(err.Error(), MaxDetail))}
	}
	return nil
}

// ForkHeld forks an idle session count times and returns the names of the siblings: sessions of the same sandbox that
// begin with all its variables.
func (e *Engine) ForkHeld(ctx context.Context, tenant string, id sandbox.ID, name string, count int) ([]string, error) {
	h, err := e.lookUp(tenant, id)
	if err != nil {
		return nil, err
	}
	s, session, err := h.enter(name)
	if err != nil {
		return nil, err
	}
	defer h.leave(e.Now)
	if language := s.spec.Language; language != sandbox.WarmLanguage {
		return nil, &Problem{Code: CodeUnsupported, Text: fmt.Sprintf("a session of %s cannot be forked: only %s can", language, sandbox.WarmLanguage)}
	}
	ctx, leave := h.join(ctx)
	defer leave()
	forker, ok := session.(sandbox.Forker)
	if !ok {
		return nil, &Problem{Code: CodeUnsupported, Text: fmt.Sprintf("backend %s cannot fork a session", h.backend.Name())}
	}
	if count < 1 || count > MaxSessions {
		return nil, &Problem{Code: CodeInvalid, Text: fmt.Sprintf("count is %d: 1 to %d are allowed", count, MaxSessions)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.Patience.Setup, errWatchdog)
	defer cancel()
	var names []string
	for range count {
		sibling, err := forker.Fork(ctx)
		if err != nil {
			return names, &Problem{Code: CodeInvalid, Err: err, Text: fmt.Sprintf(
				"the session could not be forked (%d of %d siblings were made): %v", len(names), count, err)}
		}
		name, err := h.addNext(sibling, s.spec, e.Now())
		if err != nil {
			return names, errors.Join(err, sibling.Close(context.WithoutCancel(ctx)))
		}
		names = append(names, name)
	}
	return names, nil
}

// ExecuteIn runs a cell in a session of a sandbox of the request's tenant; its state stays. The record is kept like that of any execution. The
// files that the code leaves stay in the sandbox.
func (e *Engine) ExecuteIn(ctx context.Context, id sandbox.ID, name string, request Request, sink Sink, begun func(sandbox.ID)) (_ *Execution, err error) {
	defer func() { err = e.refused(err) }()
	h, err := e.lookUp(request.who().Tenant, id)
	if err != nil {
		return nil, err
	}
	s, session, err := h.enter(name)
	if err != nil {
		return nil, err
	}
	defer h.leave(e.Now)
	if err := e.open(); err != nil { // before it is told that the session is busy: it will not be free again
		return nil, err
	}
	if err := h.begin(s); err != nil {
		return nil, err
	}
	defer h.finish(s)
	request.Policy, request.Image, request.Backend = h.request.Policy, h.request.Image, h.backend.Name()
	request.Language = s.spec.Language
	p, err := e.plan(&request)
	if err != nil {
		return nil, err
	}
	defer p.releaseImage()
	// The sandbox's limits stand; only the wall clock is the cell's own.
	wall := h.decision.Limits.Wall
	if request.Limits.Wall != nil {
		wall = min(wall, p.decision.Limits.Wall)
	}
	p.decision = h.decision
	p.decision.Limits.Wall = wall
	p.session = session
	if err := e.enter(p); err != nil {
		return nil, err
	}
	defer p.leave()
	ctx, leave := h.join(ctx)
	defer leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a, err := e.register(p, cancel)
	if err != nil {
		return nil, err
	}
	defer e.unregister(p.id, a)
	record, err := e.execute(ctx, p, a, sink, begun)
	h.spent(record)
	a.settle() // Close ends the sandbox when nothing runs any more
	switch {
	case h.ending():
		<-h.over // an answer that tells of the sandbox's end comes when nothing of it is left
	case err == nil && record.StateReset:
		e.reopen(ctx, h, s, session)
	}
	return record, err
}

// drop ends a sandbox for a reason, which is the end of what runs in it. Whoever comes second waits for the first. The
// error says what may be left.
func (e *Engine) drop(h *held, why error) error {
	e.mu.Lock()
	delete(e.held, h.id)
	first := !h.ended
	h.ended = true
	if h.timer != nil {
		h.timer.Stop()
	}
	if lease, ok := errors.AsType[*leaseError](why); ok && first {
		e.expired.add(h.request.Who.Tenant, h.id, lease.Error())
	}
	e.mu.Unlock()
	if first {
		h.end(why)
		e.accountHeld(h)
		h.left = (&execution{plan: h.plan, engine: e, box: h.box}).tearDown()
		h.give()
		h.releaseImage()
		close(h.over)
	}
	<-h.over
	return h.left
}

// expire ends a sandbox whose lease is over, or looks again later.
func (e *Engine) expire(h *held) {
	h.mu.Lock()
	now := e.Now()
	left := min(h.idle.Sub(now), h.until.Sub(now))
	if h.running > 0 && now.Before(h.until) {
		left = max(left, time.Second)
	}
	h.mu.Unlock()
	if left > 0 {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !h.ended {
			h.timer.Reset(left)
		}
		return
	}
	why := &leaseError{at: now, text: fmt.Sprintf("it was not used for %v", h.lease().Idle)}
	if !now.Before(h.until) {
		why.text = fmt.Sprintf("it was to live for %v at most", h.lease().Hard)
	}
	e.Log.Info("the lease of a sandbox ended", "id", h.id, "why", why.text)
	_ = e.drop(h, why) // it is in the log
}

// heldNow returns the sandboxes that are held, and those in the making.
func (e *Engine) heldNow() []*held {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.held))
}

// releaseAll ends every held sandbox, all at once.
func (e *Engine) releaseAll() {
	var group sync.WaitGroup
	for _, h := range e.heldNow() {
		group.Go(func() { _ = e.drop(h, ErrShutdown) }) // it is in the log
	}
	group.Wait()
}
