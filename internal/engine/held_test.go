// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func begun(sandbox.ID) {}

// TestHeldSandbox: state is kept from one execution to the next; an interpreter that is gone is replaced and said so; a
// released sandbox is gone with everything in it.
func TestHeldSandbox(t *testing.T) {
	b := newBench(t, nil)
	held, err := b.Hold(t.Context(), engine.Request{})
	if err != nil {
		t.Fatal(err)
	}
	run := func(code string) *engine.Execution {
		t.Helper()
		x, err := b.ExecuteIn(t.Context(), held.ID, "", engine.Request{Code: code}, nil, begun)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	cells := sandboxtest.FakeCells()
	run(cells.Set)
	if x := run(cells.Show); x.Stdout != "41\n" || x.StateReset {
		t.Errorf("second cell printed %q, state reset %v", x.Stdout, x.StateReset)
	}
	if x := run(cells.Crash); x.Status != engine.Status(sandbox.EndSignal) || !x.StateReset {
		t.Errorf("after a crash: %s, state reset %v", x.Status, x.StateReset)
	}
	if x := run("print on"); x.Stdout != "on\n" || x.Status != engine.Status(sandbox.EndOK) {
		t.Errorf("after a crash: %s, %q", x.Status, x.Stdout)
	}
	if err := b.Release(mine, held.ID); err != nil {
		t.Fatal(err)
	}
	if living := b.fake.Living(); len(living) > 0 {
		t.Errorf("still alive: %v", living)
	}
	if _, err := b.ExecuteIn(t.Context(), held.ID, "", engine.Request{Code: "print x"}, nil, begun); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("in a released sandbox: %v", err)
	}
}

// TestWallOfACell: a cell has the sandbox's time, or less when it asks for less. It had the policy's, whatever the sandbox was
// given.
func TestWallOfACell(t *testing.T) {
	b := newBench(t, nil)
	minute, short, long := time.Minute, 5*time.Second, 5*time.Minute
	held, err := b.Hold(t.Context(), engine.Request{Limits: policy.Overrides{Wall: &minute}})
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[*time.Duration]float64{nil: 60, &short: 5, &long: 60} {
		x, err := b.ExecuteIn(t.Context(), held.ID, "", engine.Request{Code: "print x", Limits: policy.Overrides{Wall: asked}}, nil, begun)
		if err != nil || x.Limits["wall"].Value != want {
			t.Errorf("asked for %v: %v, %v", asked, x.Limits["wall"], err)
		}
	}
}

// TestHeldRefusals: what a held sandbox cannot do is said, each with its code.
func TestHeldRefusals(t *testing.T) {
	b := newBench(t, nil)
	held, err := b.Hold(t.Context(), engine.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ExecuteIn(t.Context(), held.ID, "other", engine.Request{Code: "print x"}, nil, begun); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("unknown session: %v", err)
	}
	if _, err := b.ForkHeld(t.Context(), mine, held.ID, "", 1); engine.CodeOf(err) != engine.CodeUnsupported {
		t.Errorf("fork on a backend that cannot: %v", err)
	}
	if _, err := b.Held(mine, "nosuch"); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("unknown sandbox: %v", err)
	}
	if _, err := b.Hold(t.Context(), engine.Request{Image: "missing"}); engine.CodeOf(err) != engine.CodeImage {
		t.Errorf("missing image: %v", err)
	}
	if living := b.fake.Living(); len(living) != 1 {
		t.Errorf("alive: %v", living)
	}
}

// TestHeldAtTheLimit: one more than MaxHeld is refused and leaves nothing; a freed place can be taken.
func TestHeldAtTheLimit(t *testing.T) {
	b := newBench(t, nil)
	var last sandbox.ID
	for range engine.MaxHeld {
		held, err := b.Hold(t.Context(), engine.Request{})
		if err != nil {
			t.Fatal(err)
		}
		last = held.ID
	}
	if _, err := b.Hold(t.Context(), engine.Request{}); engine.CodeOf(err) != engine.CodeOverloaded {
		t.Errorf("one too many: %v", err)
	}
	if living := len(b.fake.Living()); living != engine.MaxHeld {
		t.Errorf("%d alive", living)
	}
	if err := b.Release(mine, last); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Hold(t.Context(), engine.Request{}); err != nil {
		t.Errorf("after one was released: %v", err)
	}
}

// TestHeldFaults: a backend that fails at any step leaves no sandbox behind, and the caller gets a problem.
func TestHeldFaults(t *testing.T) {
	for _, method := range []sandboxtest.Method{"Create", "Lease", "Open"} {
		t.Run(string(method), func(t *testing.T) {
			b := newBench(t, nil, sandboxtest.Fault{Method: method, Call: 1, Kind: sandboxtest.Fail})
			if _, err := b.Hold(t.Context(), engine.Request{}); err == nil {
				t.Error("held although the backend failed")
			}
			if living := b.fake.Living(); len(living) > 0 {
				t.Errorf("left behind: %v", fmt.Sprint(living))
			}
		})
	}
}

// TestNothingNewWhileDraining: a session that is busy is not said to be so by a server that shuts down, since it will not be
// free again; nothing else is begun either.
func TestNothingNewWhileDraining(t *testing.T) {
	b := newBench(t, nil)
	held, err := b.Hold(t.Context(), engine.Request{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, hurry := context.WithCancelCause(context.Background())
	started, ended, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = b.ExecuteIn(ctx, held.ID, "", engine.Request{Code: "spin"}, nil, func(sandbox.ID) { close(started) })
	}()
	<-started
	go func() { defer close(closed); b.Close(ctx) }()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		_, err = b.Hold(t.Context(), engine.Request{})
		if engine.CodeOf(err) == engine.CodeShuttingDown || time.Now().After(deadline) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, cell := b.ExecuteIn(t.Context(), held.ID, "", engine.Request{Code: "print 1"}, nil, begun)
	_, session := b.OpenSession(t.Context(), mine, held.ID, engine.SessionSpec{})
	_, process := b.StartProcess(t.Context(), mine, held.ID, engine.ProcessSpec{Args: []string{"sleep"}})
	for name, err := range map[string]error{"a cell": cell, "a session": session, "a process": process} {
		if engine.CodeOf(err) != engine.CodeShuttingDown {
			t.Errorf("%s: %v", name, err)
		}
	}
	hurry(engine.ErrShutdown)
	<-ended
	<-closed
}
