// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
)

func (b *bench) await(t *testing.T, start engine.Request, until func(*engine.Execution) bool) *engine.Execution {
	t.Helper()
	id, err := b.Start(start)
	if err != nil {
		t.Fatal(err)
	}
	for {
		x, err := b.Get(mine, id)
		if err != nil {
			t.Fatal(err)
		}
		if until(x) {
			return x
		}
		if t.Context().Err() != nil {
			t.Fatal("the test is over")
		}
		runtime.Gosched()
	}
}

func over(x *engine.Execution) bool { return x.Status.Over() }

func TestDetached(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	released := make(chan struct{})
	request := code("print hello")
	request.Release = func() { close(released) }
	x := b.await(t, request, over)
	<-released
	if x.Status != "ok" || x.Stdout != "hello\n" {
		t.Errorf("got %+v", x)
	}
}

func TestDeleteCancelsADetachedRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	x := b.await(t, code("spin"), func(x *engine.Execution) bool { return x.Status == engine.StatusRunning })
	if _, _, err := b.OpenArtifact(mine, x.ID, "x"); engine.CodeOf(err) != engine.CodeRunning {
		t.Errorf("an artifact of a running execution: %v", err)
	}
	if err := b.Delete(t.Context(), auth.Operator(), x.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(mine, x.ID); engine.CodeOf(err) != engine.CodeNotFound || len(b.fake.Living()) != 0 {
		t.Errorf("after Delete: %v, living %v", err, b.fake.Living())
	}
}

func TestTooManyAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.MaxRunning, c.MaxQueued = 1, 1 })
	first := b.await(t, code("spin"), func(x *engine.Execution) bool { return x.Status == engine.StatusRunning })
	second := b.await(t, code("spin"), func(x *engine.Execution) bool { return x.Status == engine.StatusQueued })
	for {
		_, err := b.Start(code("print x"))
		if engine.CodeOf(err) == engine.CodeOverloaded {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		runtime.Gosched() // the second one was not yet in the queue
	}
	for {
		if _, err := b.Run(t.Context(), code("print x"), nil); engine.CodeOf(err) == engine.CodeOverloaded {
			break
		}
	}
	for _, x := range []*engine.Execution{first, second} {
		if err := b.Delete(t.Context(), auth.Operator(), x.ID); err != nil && engine.CodeOf(err) != engine.CodeNotFound {
			t.Error(err)
		}
	}
}

func TestCloseDrainsAndThenCancels(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	x := b.await(t, code("print begun", "spin"), func(x *engine.Execution) bool { return x.Status == engine.StatusRunning })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("drained long enough"))
	defer cancel()
	b.Close(ctx)
	ended, err := b.Get(mine, x.ID)
	if err != nil || ended.Status != "canceled" || !strings.Contains(ended.Message, "shutting down") {
		t.Errorf("got %+v, %v", ended, err)
	}
	if _, err := b.Run(t.Context(), code("print x"), nil); engine.CodeOf(err) != engine.CodeShuttingDown {
		t.Errorf("Run after Close: %v", err)
	}
	if _, err := b.Start(code("print x")); engine.CodeOf(err) != engine.CodeShuttingDown {
		t.Errorf("Start after Close: %v", err)
	}
}
