// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"glovebox/internal/sandbox"
)

// execution is one plan at work.
type execution struct {
	*plan
	engine *Engine
	folder *folder
	gather *gather
	record *Execution
	box    sandbox.Sandbox
	result sandbox.Result
	// refused is set when the backend cannot do what was asked: then nothing was run.
	refused *Problem
}

// execute carries out a plan. The error is a Problem: nothing was run. A nil begun means that nobody waits.
func (e *Engine) execute(ctx context.Context, p *plan, a *active, sink Sink, begun func(sandbox.ID)) (*Execution, error) {
	arrived, detached := e.Now(), begun == nil
	x := &execution{plan: p, engine: e, record: p.blank(StatusRunning)}
	err := p.ticket.enter(ctx)
	var problem *Problem
	switch {
	case errors.As(err, &problem) && !detached:
		return nil, err
	case err != nil && ctx.Err() == nil:
		x.result = sandbox.Result{End: sandbox.EndInfra, Detail: err.Error()}
	}
	began := e.Now()
	x.record.Usage.Queue = began.Sub(arrived).Seconds()
	if x.folder, err = e.Store.create(p.id); err != nil {
		return nil, &Problem{Code: CodeStorage, Err: err, Text: "the data folder cannot be written: " + plain(err)}
	}
	defer x.closeFolder()
	if !detached {
		begun(p.id)
	}
	a.set(func(s *Execution) { s.Status = StatusRunning })
	feed := newFeed(sink)
	x.gather = &gather{
		stdout: newStream("stdout", x.folder.file("stdout"), p.decision.Limits.Output),
		stderr: newStream("stderr", x.folder.file("stderr"), p.decision.Limits.Output),
		feed:   feed, asked: p.request.Return, openBackground: x.folder.file(backgroundName),
	}
	feed.start(ctx)
	x.warnOfHost(ctx)
	if x.result.End == "" {
		x.inSandbox(ctx, began)
	}
	x.gather.close()
	if x.refused == nil || detached {
		x.finish(arrived) //nolint:contextcheck // a record is kept whether the caller waits or not
		x.account()
		a.set(func(s *Execution) { *s = *x.record })
	}
	feed.close()
	a.settle()
	p.leave() // who reads slowly keeps no place from others
	e.waitForSink(feed)
	if x.refused != nil && !detached {
		return nil, errors.Join(x.refused, x.folder.discard())
	}
	return x.record, nil
}

// warnOfHost says in the record which layers the host lacks and the sandbox is made without.
func (x *execution) warnOfHost(ctx context.Context) {
	capabilities, err := x.backend.Probe(ctx)
	if err != nil {
		return // making the sandbox says it
	}
	for _, layer := range capabilities.Lost() {
		x.gather.warn("host_lacks_"+layer.Name, fmt.Sprintf("this sandbox has no layer %s: %s", layer.Name, layer.Detail))
	}
}

// waitForSink gives a slow reader its time; the sandbox is gone already.
func (e *Engine) waitForSink(f *feed) {
	timer := time.AfterFunc(e.Patience.Deliver, f.abandon)
	defer timer.Stop()
	f.wait()
}

// inSandbox takes the steps that need a sandbox, and leaves none behind.
func (x *execution) inSandbox(ctx context.Context, began time.Time) {
	if x.session != nil {
		x.result = x.exec(ctx, x.session)
		return
	}
	session, err := x.setUp(ctx)
	defer x.mustTearDown()
	if err != nil {
		x.result = x.failure(ctx, err)
		return
	}
	x.record.Usage.Setup = x.engine.Now().Sub(began).Seconds()
	x.result = x.exec(ctx, session)
	if !x.stop() {
		return
	}
	if x.result.End != sandbox.EndCanceled && x.result.End != sandbox.EndInfra {
		x.collect()
	}
	x.readUsage()
}

// setUp makes a sandbox and opens the interpreter.
func (x *execution) setUp(ctx context.Context) (session sandbox.Session, err error) {
	e := x.engine
	if err = ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	step := func(name string, do func(context.Context) error) {
		if err != nil {
			return
		}
		bounded, cancel := context.WithTimeoutCause(ctx, e.Patience.Setup, errWatchdog)
		defer cancel()
		if err = do(bounded); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	step("create a sandbox", func(ctx context.Context) (err error) {
		x.box, err = x.backend.Create(ctx, x.id, x.class)
		if ready, ok := x.box.(interface{ Ready() bool }); ok {
			x.record.Usage.PoolHit = ready.Ready()
		}
		return err
	})
	step("lease the sandbox", func(ctx context.Context) error {
		return x.box.Lease(ctx, sandbox.Lease{Limits: x.decision.Limits, Env: x.request.Env, Files: x.request.Files})
	})
	step("open the interpreter", func(ctx context.Context) (err error) {
		session, err = x.box.Open(ctx, sandbox.OpenSpec{Language: x.request.Language})
		return err
	})
	return session, err
}

// exec runs the code.
func (x *execution) exec(ctx context.Context, session sandbox.Session) sandbox.Result {
	wall := x.decision.Limits.Wall
	bounded, cancel := context.WithTimeoutCause(ctx, wall+x.engine.Patience.Grace, errWatchdog)
	defer cancel()
	code := sandbox.Code{
		Source: x.request.Code, Name: x.request.Name, Wall: wall, Last: x.session == nil, Return: distinct(x.request.Return),
	}
	if len(x.request.Inputs) > 0 {
		code.Inputs = make(map[string][]byte, len(x.request.Inputs))
		for name, value := range x.request.Inputs {
			code.Inputs[name] = value
		}
	}
	if code.Name == "" {
		code.Name = "script"
	}
	result, err := session.Exec(bounded, code, x.gather.emit)
	if err != nil {
		return x.failure(bounded, err)
	}
	result = checkResult(result)
	if ctx.Err() != nil && result.End == sandbox.EndCanceled {
		result.End, result.Detail = endOf(context.Cause(ctx))
	}
	return result
}

// endOf names the end of an execution whose context ended, by the cause.
func endOf(cause error) (sandbox.End, string) {
	if _, ok := errors.AsType[*leaseError](cause); ok {
		return sandbox.EndExpired, cause.Error()
	}
	return sandbox.EndCanceled, cause.Error()
}

// distinct returns each name once, where it stands first.
func distinct(names []string) (once []string) {
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

// failure is the result of a step of ours that failed: the caller's doing, or ours.
func (x *execution) failure(ctx context.Context, err error) sandbox.Result {
	cause := context.Cause(ctx)
	if ctx.Err() != nil && !errors.Is(cause, errWatchdog) {
		end, detail := endOf(cause)
		return sandbox.Result{End: end, Detail: detail}
	}
	x.refused = refusal(err)
	level := slog.LevelError
	if x.refused != nil { // the caller's own words may be in it
		level = slog.LevelDebug
	}
	x.engine.Log.Log(ctx, level, "execution failed", "id", x.id, "backend", x.backend.Name(), "error", err)
	return sandbox.Result{End: sandbox.EndInfra, Detail: err.Error()}
}

// refusal makes a Problem of what a backend says it cannot do, and nil of anything else.
func refusal(err error) *Problem {
	var unsupported *sandbox.UnsupportedError
	switch {
	case errors.As(err, &unsupported):
		return &Problem{Code: CodeUnsupported, Text: unsupported.Error() + ": choose another backend, or ask for less", Err: err}
	case errors.Is(err, sandbox.ErrUnavailable):
		return &Problem{Code: CodeBackend, Text: err.Error() + "; `glovebox doctor` says how to mend it", Err: err}
	}
	return nil
}

// cleanup runs a step that must happen although the caller may be gone, a second time if need be.
func (x *execution) cleanup(name string, do func(context.Context) error) error {
	const attempts = 3
	var err error
	for range attempts {
		ctx, cancel := context.WithTimeoutCause(context.Background(), x.engine.Patience.Cleanup, errWatchdog)
		err = do(ctx)
		cancel()
		if err == nil {
			return nil
		}
		x.engine.Log.Warn("clean-up step failed", "id", x.id, "step", name, "error", err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// stop reports whether every process of the sandbox is gone.
func (x *execution) stop() bool {
	err := x.cleanup("stop the sandbox", x.box.Stop)
	if err != nil {
		x.gather.warn("not_stopped", "the sandbox could not be stopped, so its files were not read: "+err.Error())
	}
	return err == nil
}

// readUsage replaces what Exec measured by the sandbox's counters, which hold all of its processes.
func (x *execution) readUsage() {
	var usage sandbox.Usage
	if err := x.cleanup("read the counters", func(ctx context.Context) (err error) {
		usage, err = x.box.Usage(ctx)
		return err
	}); err != nil {
		x.gather.warn("usage_incomplete", "the sandbox's counters could not be read: "+err.Error())
		return
	}
	usage = checkUsage(usage)
	run := &x.result.Usage
	run.CPU = max(run.CPU, usage.CPU)
	run.MemoryPeak = max(run.MemoryPeak, usage.MemoryPeak)
	run.PIDsPeak = max(run.PIDsPeak, usage.PIDsPeak)
	run.OOMKills = max(run.OOMKills, usage.OOMKills)
	run.PIDRefusals = max(run.PIDRefusals, usage.PIDRefusals)
}

// tearDown destroys the sandbox. The error says that something of it may be left.
func (x *execution) tearDown() error {
	if x.box == nil {
		return nil
	}
	err := x.cleanup("destroy the sandbox", x.box.Destroy)
	if err != nil {
		x.engine.Log.Error("a sandbox is left behind", "id", x.id, "backend", x.backend.Name(), "error", err)
	}
	return err
}

// mustTearDown makes a run that left something behind our failure: an answer other than that promises that nothing of
// the run is alive.
func (x *execution) mustTearDown() {
	err := x.tearDown()
	if err == nil {
		return
	}
	x.gather.warn("left_behind", "the sandbox could not be destroyed; the next start of the server looks for it: "+err.Error())
	x.result.End, x.result.Detail = sandbox.EndInfra, "what ran could not be ended: "+boundText(err.Error(), MaxDetail)
}
