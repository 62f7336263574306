// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"glovebox/internal/sandbox"
)

func probing(t *testing.T, k *kit) {
	t.Helper()
	// Probe says what the host has; its layers have stable, unique names, and a missing one says how to mend it.
	t.Run("probe", func(t *testing.T) {
		capabilities, err := k.backend.Probe(k.ctx(t))
		if err != nil {
			t.Fatalf("Probe: %v", err)
		}
		if !capabilities.Available {
			t.Fatalf("not available: %s", capabilities.Why)
		}
		if missing := capabilities.Missing(); len(missing) > 0 {
			t.Errorf("available although required layers are missing: %v", missing)
		}
		seen := map[string]bool{}
		for _, layer := range capabilities.Layers {
			if layer.Name == "" || seen[layer.Name] {
				t.Errorf("layer name %q is empty or not unique", layer.Name)
			}
			seen[layer.Name] = true
			if !layer.Present && layer.Mend == "" {
				t.Errorf("layer %s is missing and nothing is said about mending it", layer.Name)
			}
		}
	})
}

func lifeBegins(t *testing.T, k *kit) {
	t.Helper()
	// An id that is not of the agreed form never reaches a path or a cgroup.
	t.Run("create refuses an invalid id", func(t *testing.T) {
		for _, id := range []sandbox.ID{"", "../x", "UPPER", "a/b", "a b"} {
			if box, err := k.backend.Create(k.ctx(t), id, k.Class); err == nil {
				t.Errorf("Create took id %q as %v", id, box.Handle())
			}
		}
	})
	// A second Create with the id of a living sandbox returns that sandbox.
	t.Run("create is idempotent by id", func(t *testing.T) {
		box := k.leased(t)
		again, err := k.backend.Create(k.ctx(t), box.Handle().ID, k.Class)
		if err != nil || again.Handle() != box.Handle() {
			t.Fatalf("got %v, %v; want %v", again, err, box.Handle())
		}
		if err := again.Lease(k.ctx(t), sandbox.Lease{Limits: k.Limits}); !errors.Is(err, sandbox.ErrLeased) {
			t.Errorf("the second handle is another sandbox: Lease gave %v", err)
		}
	})
	// Lease is called exactly once, before any Open.
	t.Run("lease comes once and first", func(t *testing.T) {
		box := k.create(t)
		if _, err := box.Open(k.ctx(t), sandbox.OpenSpec{Language: k.Language}); !errors.Is(err, sandbox.ErrLeased) {
			t.Errorf("Open before Lease: %v", err)
		}
		if err := box.Lease(k.ctx(t), sandbox.Lease{Limits: k.Limits}); err != nil {
			t.Fatalf("Lease: %v", err)
		}
		if err := box.Lease(k.ctx(t), sandbox.Lease{Limits: k.Limits}); !errors.Is(err, sandbox.ErrLeased) {
			t.Errorf("second Lease: %v", err)
		}
	})
	// Zero is refused, never unlimited.
	t.Run("lease validates limits", func(t *testing.T) {
		if err := k.create(t).Lease(k.ctx(t), sandbox.Lease{}); err == nil || errors.Is(err, sandbox.ErrLeased) {
			t.Errorf("a lease without limits gave %v", err)
		}
		limits := k.Limits
		limits.Memory = sandbox.MinMemory - 1
		if err := k.create(t).Lease(k.ctx(t), sandbox.Lease{Limits: limits}); err == nil {
			t.Error("a memory limit below the least was taken")
		}
	})
	// An input's name is one path element, whatever the caller checked.
	t.Run("lease refuses hostile input names", func(t *testing.T) {
		for _, name := range []string{"../x", "/abs", "a/b", "", "..", "a\x00b"} {
			lease := sandbox.Lease{Limits: k.Limits, Files: []sandbox.InputFile{input(name, "x")}}
			if err := k.create(t).Lease(k.ctx(t), lease); err == nil {
				t.Errorf("input name %q was taken", name)
			}
		}
	})
	// A cell without a wall limit is refused.
	t.Run("exec needs a wall limit", func(t *testing.T) {
		if _, err := k.session(t).Exec(k.ctx(t), sandbox.Code{Source: k.Cells.Streams}, func(sandbox.Event) {}); err == nil {
			t.Error("a cell without a wall limit ran")
		}
	})
}

func lifeEnds(t *testing.T, k *kit) {
	t.Helper()
	// Stop ends a running cell, is idempotent, and leaves the counters readable.
	t.Run("stop ends everything", func(t *testing.T) {
		box := k.leased(t)
		session := k.open(t, box)
		begun, done := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(done) // a result or an error: what matters is that it returns
			_, _ = session.Exec(k.ctx(t), sandbox.Code{Source: k.Cells.Spin, Wall: k.Limits.Wall}, signalOnOutput(begun))
		}()
		<-begun
		for range 2 {
			if err := box.Stop(k.ctx(t)); err != nil {
				t.Fatalf("Stop: %v", err)
			}
		}
		<-done
		usage, err := box.Usage(k.ctx(t))
		if err != nil || usage.Wall < 0 || usage.CPU < 0 || usage.MemoryPeak <= 0 {
			t.Errorf("Usage after Stop: %+v, %v", usage, err)
		}
		if _, err := box.Open(k.ctx(t), sandbox.OpenSpec{Language: k.Language}); !errors.Is(err, sandbox.ErrGone) {
			t.Errorf("Open after Stop: %v", err)
		}
	})
	// Destroy works from any state, more than once, and afterwards everything is ErrGone.
	t.Run("destroy is idempotent from any state", func(t *testing.T) {
		for name, box := range map[string]sandbox.Sandbox{"created": k.create(t), "leased": k.leased(t)} {
			for range 2 {
				if err := box.Destroy(k.ctx(t)); err != nil {
					t.Errorf("%s: Destroy: %v", name, err)
				}
			}
			if _, err := box.Open(k.ctx(t), sandbox.OpenSpec{Language: k.Language}); !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("%s: Open after Destroy: %v", name, err)
			}
			if err := box.Lease(k.ctx(t), sandbox.Lease{Limits: k.Limits}); !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("%s: Lease after Destroy: %v", name, err)
			}
		}
	})
	// Destroy ends a running cell; Exec returns.
	t.Run("destroy during a cell", func(t *testing.T) {
		box := k.leased(t)
		session := k.open(t, box)
		begun, done := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(done)
			_, _ = session.Exec(k.ctx(t), sandbox.Code{Source: k.Cells.Spin, Wall: k.Limits.Wall}, signalOnOutput(begun))
		}()
		<-begun
		if err := box.Destroy(k.ctx(t)); err != nil {
			t.Errorf("Destroy: %v", err)
		}
		<-done
	})
	// A caller that gave up gets an answer at once, and nothing is left behind.
	t.Run("create with a dead context", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(k.ctx(t))
		cancel(errors.New("the caller left"))
		if box, err := k.backend.Create(ctx, NewID(), k.Class); err == nil {
			t.Errorf("Create with a dead context gave %v", box.Handle())
			_ = box.Destroy(k.ctx(t))
		}
	})
	// Close destroys what is left; a later daemon finds nothing.
	t.Run("close leaves nothing", func(t *testing.T) {
		box, err := k.backend.Create(k.ctx(t), NewID(), k.Class)
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		if err := k.backend.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := box.Lease(k.ctx(t), sandbox.Lease{Limits: k.Limits}); err == nil {
			t.Error("a sandbox outlives its backend")
		}
		for handle, err := range k.backend.Leftovers(k.ctx(t)) {
			t.Errorf("left behind: %v, %v", handle, err)
		}
	})
}

// signalOnOutput tells once that a cell has begun to print.
func signalOnOutput(begun chan<- struct{}) sandbox.Emit {
	return func(event sandbox.Event) {
		if event.Kind == sandbox.EventStdout {
			select {
			case begun <- struct{}{}:
			default:
			}
		}
	}
}

func interrupting(t *testing.T, k *kit) {
	t.Helper()
	// Interrupt raises the language's interrupt; state is kept.
	t.Run("interrupt keeps state", func(t *testing.T) {
		session := k.session(t)
		k.exec(t, session, sandbox.Code{Source: k.Cells.Set})
		begun := make(chan struct{}, 1)
		interrupted := make(chan error, 1)
		go func() {
			<-begun
			interrupted <- session.Interrupt(k.ctx(t))
		}()
		record := &transcript{}
		result, err := session.Exec(k.ctx(t), sandbox.Code{Source: k.Cells.Spin, Wall: k.Limits.Wall}, func(e sandbox.Event) {
			record.emit(e)
			signalOnOutput(begun)(e)
		})
		if err := errors.Join(err, <-interrupted); err != nil {
			t.Fatal(err)
		}
		want(t, result, record, sandbox.EndError)
		if result.StateReset {
			t.Error("state was reset")
		}
		_, record = k.exec(t, session, sandbox.Code{Source: k.Cells.Show})
		if got := record.text(sandbox.EventStdout); got != "41\n" {
			t.Errorf("after the interrupt v is %q", got)
		}
	})
	// A session runs one cell at a time.
	t.Run("a busy session says so", func(t *testing.T) {
		session := k.session(t)
		begun, done := make(chan struct{}, 1), make(chan struct{})
		ctx, cancel := context.WithCancelCause(k.ctx(t))
		go func() {
			defer close(done)
			_, _ = session.Exec(ctx, sandbox.Code{Source: k.Cells.Spin, Wall: k.Limits.Wall}, signalOnOutput(begun))
		}()
		<-begun
		if _, err := session.Exec(k.ctx(t), sandbox.Code{Source: k.Cells.Show, Wall: k.Limits.Wall}, func(sandbox.Event) {}); !errors.Is(err, sandbox.ErrBusy) {
			t.Errorf("second Exec: %v", err)
		}
		cancel(errors.New("the test is over"))
		<-done
	})
	// When the caller's context ends, Exec returns soon, with EndCanceled or the context's error.
	t.Run("cancel during a cell", func(t *testing.T) {
		session := k.session(t)
		ctx, cancel := context.WithCancelCause(k.ctx(t))
		defer cancel(nil)
		started := time.Now()
		result, err := session.Exec(ctx, sandbox.Code{Source: k.Cells.Spin, Wall: k.Limits.Wall}, func(e sandbox.Event) {
			if e.Kind == sandbox.EventStdout {
				cancel(errors.New("the caller left"))
			}
		})
		if err == nil && result.End != sandbox.EndCanceled {
			t.Errorf("got %+v", result)
		}
		if took := time.Since(started); took >= k.Limits.Wall {
			t.Errorf("returned after %v: only the wall limit ended it", took)
		}
	})
}
