// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/auth"
	"glovebox/internal/sandbox"
	"glovebox/internal/store"
)

// Images resolves an image's name when a run begins.
type Images interface {
	// Use returns what a Class calls the image, and keeps the image from being removed until release is called. A
	// missing image is a Problem.
	Use(name string) (ref string, release func(), err error)
}

// Config is what an engine needs. Every field is required unless it says otherwise.
type Config struct {
	// Backends are asked in this order when a request names none.
	Backends []sandbox.Backend
	Images   Images
	Store    *Store
	// Image and Policy are the defaults of a request that names none; an empty Policy is the first preset.
	Image  string
	Policy string
	// Maxima are the most that a request may ask for.
	Maxima sandbox.Limits
	// Artifacts bound what is collected.
	Artifacts artifact.Limits
	// MaxRunning is how many executions run at once, MaxQueued how many wait, QueueWait how long.
	MaxRunning int
	MaxQueued  int
	QueueWait  time.Duration
	// QueuedEach and Quota are as in Settings; they may be left out.
	QueuedEach int
	Quota      func(tenant string) auth.Quota
	Patience   Patience
	// Account keeps what tenants use, Observer what happens; nil for nobody.
	Account  Account
	Observer Observer
	Log      *slog.Logger
	Now      func() time.Time
	NewID    func() sandbox.ID
}

// Patience bounds each step of our own, so that a backend that hangs ends as a failure of ours.
type Patience struct {
	// Setup bounds create, lease and open, each.
	Setup time.Duration
	// Grace is what a run may take beyond its wall limit.
	Grace time.Duration
	// Cleanup bounds stop, usage and destroy, each; Collect the collecting of artifacts.
	Cleanup time.Duration
	Collect time.Duration
	// Deliver is how long a sink may take to read what is left after the end.
	Deliver time.Duration
}

// DefaultPatience suits a loaded host.
func DefaultPatience() Patience {
	return Patience{
		Setup: time.Minute, Grace: 20 * time.Second, Cleanup: 30 * time.Second, Collect: time.Minute, Deliver: 10 * time.Minute,
	}
}

func (c *Config) validate() error {
	var faults []error
	need := func(ok bool, name string) {
		if !ok {
			faults = append(faults, fmt.Errorf("engine: %s is required", name))
		}
	}
	need(len(c.Backends) > 0, "a backend")
	need(c.Images != nil, "Images")
	need(c.Store != nil, "Store")
	need(c.Log != nil, "Log")
	need(c.Now != nil, "Now")
	need(c.NewID != nil, "NewID")
	p := c.Patience
	need(p.Setup > 0 && p.Grace > 0 && p.Cleanup > 0 && p.Collect > 0 && p.Deliver > 0, "Patience")
	need(c.Artifacts.Count > 0 && c.Artifacts.Single > 0 && c.Artifacts.Total > 0 && c.Artifacts.Depth > 0 &&
		c.Artifacts.Folders > 0 && c.Artifacts.Entries > 0, "Artifacts")
	return errors.Join(append(faults, c.changeable().validate())...)
}

// Causes with which an execution is canceled.
var (
	ErrShutdown = errors.New("the server is shutting down")
	ErrDeleted  = errors.New("the execution was canceled by request")
	// ErrReleased is that of the cells of a sandbox that somebody deletes.
	ErrReleased = errors.New("the sandbox was deleted")
	// ErrLeft is for callers whose client has gone.
	ErrLeft = errors.New("the client left")

	errWatchdog = errors.New("the backend did not answer in time")
)

// Engine runs code. It is safe for concurrent use.
type Engine struct {
	Config
	settings atomic.Pointer[Settings]
	gate     *gate
	ledger   ledger

	mu     sync.Mutex
	active map[sandbox.ID]*active
	closed bool
	held   map[sandbox.ID]*held
	// expired remembers the sandboxes whose lease ended last.
	expired expired
	// work counts executions and the making of held sandboxes; its Wait begins only after closed is set.
	work sync.WaitGroup
}

// active is an execution that is not over.
type active struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
	// settle says that nothing of it is alive and its record is kept; a slow reader may still be served.
	settle func()

	mu       sync.Mutex
	snapshot Execution
}

func (a *active) set(change func(*Execution)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.snapshot)
}

func (a *active) get() Execution {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.snapshot
}

// New returns an Engine.
func New(config Config) (*Engine, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	e := &Engine{Config: config, gate: newGate(config.Now), active: make(map[sandbox.ID]*active)}
	return e, e.Change(config.changeable())
}

// changeable returns the settings that Change may change later.
func (c *Config) changeable() Settings {
	return Settings{
		Policy: c.Policy, Maxima: c.Maxima, MaxRunning: c.MaxRunning, MaxQueued: c.MaxQueued, QueueWait: c.QueueWait,
		QueuedEach: c.QueuedEach, Quota: c.Quota,
	}
}

// Run carries out one execution and returns its record. The sink may be nil. When ctx ends the execution is canceled,
// and still cleaned up before Run returns. The error is a Problem: nothing was run.
func (e *Engine) Run(ctx context.Context, request Request, sink Sink) (*Execution, error) {
	return e.Follow(ctx, request, sink, func(sandbox.ID) {})
}

// Follow is Run that tells the id when the execution has its place, before anything is emitted.
func (e *Engine) Follow(ctx context.Context, request Request, sink Sink, begun func(sandbox.ID)) (_ *Execution, err error) {
	defer func() { err = e.refused(err) }()
	defer request.release()
	p, err := e.plan(&request)
	if err != nil {
		return nil, err
	}
	defer p.releaseImage()
	if err := e.enter(p); err != nil {
		return nil, err
	}
	defer p.leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a, err := e.register(p, cancel)
	if err != nil {
		return nil, err
	}
	defer e.unregister(p.id, a)
	return e.execute(ctx, p, a, sink, begun)
}

// Start carries out an execution without its caller and returns its id at once; Get has the record.
func (e *Engine) Start(request Request) (sandbox.ID, error) {
	p, err := e.plan(&request)
	if err != nil {
		request.release()
		return "", e.refused(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	var a *active
	if err = e.enter(p); err == nil {
		if a, err = e.register(p, cancel); err != nil {
			p.leave()
		}
	}
	if err == nil {
		// Before anybody is told the id, so that it is known whatever becomes of this process.
		if err = e.saveLost(p, StatusRunning); err != nil {
			e.unregister(p.id, a)
		}
	}
	if err != nil {
		cancel(err)
		p.releaseImage()
		request.release()
		return "", e.refused(err)
	}
	go func() {
		defer e.unregister(p.id, a)
		defer cancel(nil)
		defer p.releaseImage()
		defer request.release()
		defer p.leave()
		if _, err := e.execute(ctx, p, a, nil, nil); err != nil {
			//nolint:contextcheck // its context may have ended
			e.Log.Warn("detached execution was not run", "id", p.id, "error", errors.Join(err, e.saveLost(p, Status(sandbox.EndInfra))))
		}
	}()
	return p.id, nil
}

func (e *Engine) register(p *plan, cancel context.CancelCauseFunc) (*active, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, shuttingDown()
	}
	a := &active{cancel: cancel, done: make(chan struct{}), settle: sync.OnceFunc(e.work.Done), snapshot: *p.blank(StatusQueued)}
	e.active[p.id] = a
	e.work.Add(1)
	return a, nil
}

func (e *Engine) unregister(id sandbox.ID, a *active) {
	e.mu.Lock()
	delete(e.active, id)
	e.mu.Unlock()
	close(a.done)
	a.settle()
}

// find returns a tenant's execution that is not over, or nil.
func (e *Engine) find(tenant string, id sandbox.ID) *active {
	e.mu.Lock()
	a := e.active[id]
	e.mu.Unlock()
	if a == nil || a.get().Tenant != tenant {
		return nil
	}
	return a
}

// Get returns the record of a tenant's execution; one that is not over has little in it. Another tenant's is not found.
func (e *Engine) Get(tenant string, id sandbox.ID) (*Execution, error) {
	if a := e.find(tenant, id); a != nil {
		x := a.get()
		return &x, nil
	}
	return e.Store.load(tenant, id)
}

// OpenArtifact opens a file that a tenant's execution left; the caller closes it.
func (e *Engine) OpenArtifact(tenant string, id sandbox.ID, name string) (store.File, artifact.Artifact, error) {
	if a := e.find(tenant, id); a != nil && !a.get().Status.Over() {
		return nil, artifact.Artifact{}, stillRunning(id)
	}
	return e.Store.openArtifact(tenant, id, name)
}

// OpenOutput opens what a tenant's execution printed on stdout or stderr, or what earlier cells did; the caller closes it. Of
// one that is not over it is what was printed until now.
func (e *Engine) OpenOutput(tenant string, id sandbox.ID, stream string) (store.File, error) {
	if stream != "stdout" && stream != "stderr" && stream != backgroundName {
		return nil, &Problem{Code: CodeInvalid, Text: fmt.Sprintf("stream %q is not known: choose stdout, stderr or background", clip(stream, 20))}
	}
	if a := e.find(tenant, id); a != nil && !a.get().Status.Over() {
		file, err := e.Store.open(tenant, id, stream)
		if errors.Is(err, store.ErrNotFound) {
			return e.Store.openKept(tenant, id, stream, 0) // nothing was printed yet
		}
		return file, err
	}
	x, err := e.Store.load(tenant, id)
	if err != nil {
		return nil, err
	}
	kept := map[string]int64{"stdout": x.Output.Stdout.Kept, "stderr": x.Output.Stderr.Kept}
	if x.Background != nil {
		kept[backgroundName] = x.Background.Kept
	}
	return e.Store.openKept(tenant, id, stream, kept[stream])
}

func stillRunning(id sandbox.ID) error {
	return &Problem{Code: CodeRunning, Text: fmt.Sprintf("execution %s is not over yet: ask again when its status says so", id)}
}

// Close takes no more executions, lets the running ones go on until ctx ends, cancels the rest and waits for their
// clean-up and their records, but not for slow readers of them. It closes neither backends nor store.
func (e *Engine) Close(ctx context.Context) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		e.work.Wait()
		close(idle)
	}()
	defer e.releaseAll()
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	e.mu.Lock()
	for _, a := range e.active {
		a.cancel(ErrShutdown)
	}
	e.mu.Unlock()
	for _, h := range e.heldNow() {
		h.end(ErrShutdown) // one in the making too
	}
	<-idle
}
