// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// scripted is the fake backend with two hooks: one before a sandbox is made, one in place of what a cell does.
type scripted struct {
	*sandboxtest.Fake
	creating func()
	cell     func(sandbox.Emit)
}

func (s *scripted) Create(ctx context.Context, id sandbox.ID, class sandbox.Class) (sandbox.Sandbox, error) {
	if s.creating != nil {
		s.creating()
	}
	box, err := s.Fake.Create(ctx, id, class)
	return &scriptedBox{box, s}, err
}

type scriptedBox struct {
	sandbox.Sandbox
	backend *scripted
}

func (b *scriptedBox) Open(ctx context.Context, spec sandbox.OpenSpec) (sandbox.Session, error) {
	session, err := b.Sandbox.Open(ctx, spec)
	if b.backend.cell == nil || err != nil {
		return session, err
	}
	return &scriptedSession{session, b.backend}, nil
}

type scriptedSession struct {
	sandbox.Session
	backend *scripted
}

func (s *scriptedSession) Exec(_ context.Context, _ sandbox.Code, emit sandbox.Emit) (sandbox.Result, error) {
	s.backend.cell(emit)
	return sandbox.Result{End: sandbox.EndOK}, nil
}

func newScripted(t *testing.T, backend *scripted) *bench {
	t.Helper()
	backend.Fake = sandboxtest.NewFake(t.TempDir())
	b := newBench(t, func(c *engine.Config) { c.Backends = []sandbox.Backend{backend} })
	b.fake = backend.Fake
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// spinning starts a cell that runs until it is ended, and returns the way to its record.
func (b *bench) spinning(t *testing.T, id sandbox.ID) <-chan *engine.Execution {
	t.Helper()
	runs, ended := make(chan struct{}), make(chan *engine.Execution, 1)
	sink := engine.SinkFunc(func(context.Context, sandbox.Event) error { close(runs); return nil })
	go func() {
		x, err := b.ExecuteIn(t.Context(), id, "", code("print on", "spin"), sink, begun)
		if err != nil {
			t.Error(err)
		}
		ended <- x
	}()
	<-runs
	return ended
}

// TestEndOfTheLeaseIsNamed: a cell that runs when the hard lease of its sandbox ends is told so, and when, and so is who
// asks for the sandbox afterwards. It was a failure of ours: "the sandbox ended without a report".
func TestEndOfTheLeaseIsNamed(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var passed atomic.Int64
	b := newBench(t, func(c *engine.Config) { c.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) } })
	held, err := b.Hold(t.Context(), engine.Request{})
	if err != nil {
		t.Fatal(err)
	}
	ended := b.spinning(t, held.ID)
	passed.Store(int64(engine.HardLease))
	when := start.Add(engine.HardLease).UTC().Format(time.RFC3339)
	if err := engine.Expire(b.Engine, held.ID); err != nil {
		t.Fatal(err)
	}
	x := <-ended
	if x.Status != "expired" || !strings.Contains(x.Message, when) || !strings.Contains(x.Message, "1h0m0s at most") {
		t.Errorf("the cell ended with %s, %q", x.Status, x.Message)
	}
	_, err = b.Held(mine, held.ID)
	if engine.CodeOf(err) != engine.CodeExpired || !strings.Contains(err.Error(), when) {
		t.Errorf("afterwards: %v", err)
	}
	if err := b.Release(mine, held.ID); engine.CodeOf(err) != engine.CodeExpired {
		t.Errorf("releasing it afterwards: %v", err)
	}
	if living := b.fake.Living(); len(living) > 0 {
		t.Errorf("alive: %v", living)
	}
}

// TestIdleLeaseIsNamed: so is the end of one that nobody used.
func TestIdleLeaseIsNamed(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var passed atomic.Int64
	b := newBench(t, func(c *engine.Config) { c.Now = func() time.Time { return start.Add(time.Duration(passed.Load())) } })
	held, err := b.Hold(t.Context(), engine.Request{})
	if err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(engine.IdleLease) - 1)
	if err := errors.Join(engine.Expire(b.Engine, held.ID), engine.Expire(b.Engine, held.ID)); err != nil {
		t.Fatalf("it ended before its time: %v", err)
	}
	passed.Store(int64(engine.IdleLease))
	if err := engine.Expire(b.Engine, held.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Held(mine, held.ID); engine.CodeOf(err) != engine.CodeExpired || !strings.Contains(err.Error(), "not used for 5m0s") {
		t.Errorf("afterwards: %v", err)
	}
}

// TestReleaseEndsARunningCell: who deletes a sandbox cancels what runs in it; that was a failure of ours, too.
func TestReleaseEndsARunningCell(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	held, err := b.Hold(t.Context(), engine.Request{})
	if err != nil {
		t.Fatal(err)
	}
	ended := b.spinning(t, held.ID)
	if err := b.Release(mine, held.ID); err != nil {
		t.Fatal(err)
	}
	if x := <-ended; x.Status != "canceled" || !strings.Contains(x.Message, "the sandbox was deleted") {
		t.Errorf("the cell ended with %s, %q", x.Status, x.Message)
	}
}

// TestReleaseSaysWhatIsLeft: a held sandbox that cannot be destroyed is not reported as gone.
func TestReleaseSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	var plan []sandboxtest.Fault
	for call := range 3 {
		plan = append(plan, sandboxtest.Fault{Method: sandboxtest.MethodDestroy, Call: call + 1, Kind: sandboxtest.Fail})
	}
	b := newBench(t, nil, plan...)
	held, err := b.Hold(t.Context(), engine.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(mine, held.ID); engine.CodeOf(err) != engine.CodeInternal || !strings.Contains(err.Error(), "could not be ended") {
		t.Errorf("got %v", err)
	}
}

// closing waits until the engine takes nothing more.
func (b *bench) closing(t *testing.T) {
	t.Helper()
	for {
		if _, err := b.Start(code("print x")); engine.CodeOf(err) == engine.CodeShuttingDown {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("the test is over")
		}
		runtime.Gosched()
	}
}

// TestHoldWhileTheEngineCloses: a sandbox that is made meanwhile is ended before Close returns, and its caller is told.
func TestHoldWhileTheEngineCloses(t *testing.T) {
	t.Parallel()
	creating, goOn := make(chan struct{}, 1), make(chan struct{})
	var first atomic.Bool
	b := newScripted(t, &scripted{creating: func() {
		if first.CompareAndSwap(false, true) {
			creating <- struct{}{}
			<-goOn
		}
	}})
	held, closed := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := b.Hold(t.Context(), engine.Request{})
		held <- err
	}()
	<-creating
	go func() {
		b.Close(t.Context())
		close(closed)
	}()
	b.closing(t)
	select {
	case <-closed:
		t.Error("Close did not wait for a sandbox in the making")
	default:
	}
	close(goOn)
	if err := <-held; engine.CodeOf(err) != engine.CodeShuttingDown {
		t.Errorf("Hold: %v", err)
	}
	<-closed
	if living := b.fake.Living(); len(living) > 0 {
		t.Errorf("alive: %v", living)
	}
}

// TestCloseEndsTheMakingOfASandbox: one that hangs is not waited for beyond the drain.
func TestCloseEndsTheMakingOfASandbox(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil, sandboxtest.Fault{Method: sandboxtest.MethodCreate, Call: 1, Kind: sandboxtest.Hang})
	held := make(chan error, 1)
	go func() {
		_, err := b.Hold(t.Context(), engine.Request{})
		held <- err
	}()
	for len(b.fake.Log()) == 0 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Close(ctx)
	if err := <-held; engine.CodeOf(err) != engine.CodeShuttingDown {
		t.Errorf("Hold: %v", err)
	}
}

// TestCloseDoesNotWaitForReaders: a reader that reads nothing does not hold up the end; the sandbox is gone and the record
// is kept all the same. It could for ten minutes.
func TestCloseDoesNotWaitForReaders(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	reading, goOn, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var id sandbox.ID
	go func() {
		defer close(over)
		sink := engine.SinkFunc(func(context.Context, sandbox.Event) error { close(reading); <-goOn; return nil })
		if _, err := b.Follow(t.Context(), code("print hello"), sink, func(begun sandbox.ID) { id = begun }); err != nil {
			t.Error(err)
		}
	}()
	<-reading
	b.Close(t.Context())
	x, err := b.Get(mine, id)
	if _, loadErr := b.store.Load(id); err != nil || loadErr != nil || x.Status != "ok" || len(b.fake.Living()) > 0 {
		t.Errorf("after Close: %+v, %v, %v, alive: %v", x, err, loadErr, b.fake.Living())
	}
	close(goOn)
	<-over
}

// TestRepeatsAreBounded: exceptions and values that come again and again do not grow in what waits for a slow reader, and
// results beyond their number are not even looked at, whatever the backend.
func TestRepeatsAreBounded(t *testing.T) {
	t.Parallel()
	const many = 2000
	text := func(content string) *sandbox.Bundle {
		return &sandbox.Bundle{Data: map[string]json.RawMessage{"text/plain": json.RawMessage(content)}}
	}
	b := newScripted(t, &scripted{cell: func(emit sandbox.Emit) {
		for n := range many {
			emit(sandbox.Event{Kind: sandbox.EventError, Fault: &sandbox.Fault{Name: fmt.Sprint("E", n)}})
			emit(sandbox.Event{Kind: sandbox.EventValue, Name: "v", Bundle: text(fmt.Sprintf(`"%d"`, n))})
		}
		for range engine.MaxResults {
			emit(sandbox.Event{Kind: sandbox.EventResult, Bundle: text(`"r"`)})
		}
		for range many {
			emit(sandbox.Event{Kind: sandbox.EventDisplay, Bundle: text(`"broken`)})
		}
	}})
	seen := map[sandbox.EventKind]int{}
	request := code("any")
	request.Return = []string{"v", "v"}
	x := b.run(t, request, engine.SinkFunc(func(_ context.Context, e sandbox.Event) error { seen[e.Kind]++; return nil }))
	if seen[sandbox.EventError] != engine.MaxFaults || seen[sandbox.EventValue] != 1 || seen[sandbox.EventResult] != engine.MaxResults {
		t.Errorf("events: %v", seen)
	}
	if x.Error.Name != fmt.Sprint("E", engine.MaxFaults-1) || string(x.Values["v"]["text/plain"]) != `"0"` {
		t.Errorf("error %v, value %s", x.Error, x.Values["v"]["text/plain"])
	}
	if warned(x, "result_dropped") || !warned(x, "results_limit") || !warned(x, "error_dropped") || !warned(x, "value_dropped") {
		t.Errorf("warnings %v", x.Warnings)
	}
}
