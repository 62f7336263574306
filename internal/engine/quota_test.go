// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func holder(tenant, key string, quota auth.Quota) *auth.Principal {
	return auth.Of(auth.Key{ID: key, Tenant: tenant, Scopes: auth.DefaultScopes(), Quota: quota})
}

// crowd asks at once so often, and returns when all but those that stay are refused by a quota. The others end with ctx.
func crowd(t *testing.T, size, stay int, ask func() error) {
	t.Helper()
	var exceeded atomic.Int64
	refused := make(chan struct{})
	var group sync.WaitGroup
	for range size {
		group.Go(func() {
			switch err := ask(); engine.CodeOf(err) {
			case engine.CodeQuota:
				if exceeded.Add(1) == int64(size-stay) {
					close(refused)
				}
			default:
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	select {
	case <-refused:
	case <-time.After(time.Minute):
		t.Error("fewer were refused than must be")
	}
	group.Wait()
	if n := exceeded.Load(); n != int64(size-stay) {
		t.Errorf("%d of %d were refused, want %d", n, size, size-stay)
	}
}

// TestQuotaIsExact: of 500 requests at once exactly as many are carried out as the quota allows, and the rest is told so. When
// they are over the counts are zero again, whichever way they ended.
func TestQuotaIsExact(t *testing.T) {
	t.Parallel()
	const size, running, sandboxes = 500, 7, 5
	many := func(c *engine.Config) { c.MaxRunning, c.MaxQueued = 4, 600 }
	for name, who := range map[string]*auth.Principal{
		"of a key":    holder("acme", "k1", auth.Quota{Running: running}),
		"of a tenant": holder("small", "k1", auth.Quota{}),
	} {
		t.Run("executions "+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *engine.Config) {
				many(c)
				c.Quota = func(tenant string) auth.Quota {
					if tenant == "small" {
						return auth.Quota{Running: running}
					}
					return auth.Quota{}
				}
			})
			for range 3 { // the counts are zero again each time
				var mu sync.Mutex
				var ids []sandbox.ID
				crowd(t, size, running, func() error {
					request := code("spin")
					request.Who = who
					id, err := b.Start(request)
					if err == nil {
						mu.Lock()
						ids = append(ids, id)
						mu.Unlock()
					}
					return err
				})
				for _, id := range ids {
					if err := b.Delete(t.Context(), who, id); err != nil && engine.CodeOf(err) != engine.CodeNotFound {
						t.Error(err)
					}
				}
			}
		})
	}
	for name, quota := range map[string]auth.Quota{
		"by their number": {Sandboxes: sandboxes}, "by their memory": {Memory: sandboxes * 512 << 20, Sandboxes: size},
	} {
		t.Run("sandboxes "+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, many)
			who := holder("acme", "k1", quota)
			for range 3 {
				var mu sync.Mutex
				var ids []sandbox.ID
				crowd(t, size, sandboxes, func() error {
					held, err := b.Hold(t.Context(), engine.Request{Who: who})
					if err == nil {
						mu.Lock()
						ids = append(ids, held.ID)
						mu.Unlock()
					}
					return err
				})
				for _, id := range ids {
					if err := b.Release("acme", id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// TestQuotasReturn: a run that fails at any step, is refused or loses its caller gives back what it was counted for; the
// quota is one, so a single leak would refuse the next.
func TestQuotasReturn(t *testing.T) {
	t.Parallel()
	who := holder("acme", "k1", auth.Quota{Running: 1, Sandboxes: 1})
	var faults []sandboxtest.Fault
	for _, method := range []sandboxtest.Method{"Create", "Lease", "Open", "Exec", "Stop", "Usage", "Destroy"} {
		for call := range 2 {
			faults = append(faults, sandboxtest.Fault{Method: method, Call: call + 1, Kind: sandboxtest.Fail})
		}
	}
	b := newBench(t, nil, faults...)
	for range 40 {
		request := code("print x")
		request.Who = who
		if _, err := b.Run(t.Context(), request, nil); engine.CodeOf(err) == engine.CodeQuota {
			t.Fatal(err)
		}
		held, err := b.Hold(t.Context(), engine.Request{Who: who})
		if engine.CodeOf(err) == engine.CodeQuota {
			t.Fatal(err)
		}
		if err == nil {
			_ = b.Release("acme", held.ID) // a fault of the backend may be planned here
		}
		gone, leave := context.WithCancelCause(t.Context())
		leave(engine.ErrLeft)
		if _, err := b.Run(gone, request, nil); engine.CodeOf(err) == engine.CodeQuota {
			t.Fatal(err)
		}
		request.Image = "missing"
		if _, err := b.Run(t.Context(), request, nil); engine.CodeOf(err) != engine.CodeImage {
			t.Fatal(err)
		}
	}
	if load := b.Load(); load.Running+load.Waiting+load.Held != 0 {
		t.Errorf("still counted: %+v", load)
	}
}

// TestQuotaSaysWhich: the refusal names the quota, its value and its limit, and one key's does not bind another's.
func TestQuotaSaysWhich(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	who, other := holder("acme", "k1", auth.Quota{Sandboxes: 1, Memory: 600 << 20}), holder("acme", "k2", auth.Quota{})
	held, err := b.Hold(t.Context(), engine.Request{Who: who})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Hold(t.Context(), engine.Request{Who: who})
	if engine.CodeOf(err) != engine.CodeQuota || !strings.Contains(err.Error(), "quota sandboxes of this key is 1, and this request would make it 2") {
		t.Errorf("a second sandbox: %v", err)
	}
	request := code("print x")
	request.Who = who
	if _, err = b.Run(t.Context(), request, nil); engine.CodeOf(err) != engine.CodeQuota || !strings.Contains(err.Error(), "quota memory of this key is 629145600") {
		t.Errorf("more memory: %v", err)
	}
	cell := request
	if x, err := b.ExecuteIn(t.Context(), held.ID, "", cell, nil, func(sandbox.ID) {}); err != nil || x.Status != "ok" {
		t.Errorf("a cell needs no memory but its sandbox's: %v", err)
	}
	request.Who = other
	if x, err := b.Run(t.Context(), request, nil); err != nil || x.Status != "ok" {
		t.Errorf("another key of the tenant: %v", err)
	}
}

// TestOverloadKillsNothing: while a crowd is refused, what runs goes on to its end.
func TestOverloadKillsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.MaxRunning, c.MaxQueued = 1, 1 })
	x := b.await(t, code("spin"), func(x *engine.Execution) bool { return x.Status == engine.StatusRunning })
	if _, err := b.Start(code("print x")); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err := b.Run(t.Context(), code("print y"), nil); engine.CodeOf(err) != engine.CodeOverloaded {
			t.Fatal(err)
		}
	}
	if now, err := b.Get(mine, x.ID); err != nil || now.Status != engine.StatusRunning {
		t.Errorf("%+v, %v", now, err)
	}
	if err := b.Delete(t.Context(), auth.Operator(), x.ID); err != nil {
		t.Error(err)
	}
}

// book is an Account that remembers.
type book struct {
	mu     sync.Mutex
	spent  []engine.Spent
	refuse error
}

func (b *book) Allow(string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refuse
}

func (b *book) Spend(spent engine.Spent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent = append(b.spent, spent)
}

// TestWhatIsUsedIsTold: executions, cells and sandboxes each once, to their tenant; a spent budget stops what is new.
func TestWhatIsUsedIsTold(t *testing.T) {
	t.Parallel()
	account := &book{}
	b := newBench(t, func(c *engine.Config) { c.Account = account })
	who := holder("acme", "k1", auth.Quota{})
	request := code("print hello", "write f.txt abc")
	request.Who = who
	b.run(t, request, nil)
	held, err := b.Hold(t.Context(), engine.Request{Who: who})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ExecuteIn(t.Context(), held.ID, "", engine.Request{Who: who, Code: "print x"}, nil, func(sandbox.ID) {}); err != nil {
		t.Fatal(err)
	}
	account.mu.Lock()
	account.refuse = &engine.Problem{Code: engine.CodeBudget, Text: "spent"}
	account.mu.Unlock()
	for name, err := range map[string]error{
		"run":  func() error { _, err := b.Run(t.Context(), request, nil); return err }(),
		"hold": func() error { _, err := b.Hold(t.Context(), engine.Request{Who: who}); return err }(),
	} {
		if engine.CodeOf(err) != engine.CodeBudget {
			t.Errorf("%s over the budget: %v", name, err)
		}
	}
	if err := b.Release("acme", held.ID); err != nil {
		t.Error(err)
	}
	var runs, stored int64
	for _, spent := range account.spent {
		if spent.Tenant != "acme" || spent.CPU < 0 || spent.MemorySeconds < 0 {
			t.Errorf("got %+v", spent)
		}
		runs += spent.Runs
		stored += spent.Stored
	}
	if len(account.spent) != 3 || runs != 2 || stored != int64(len("hello\n")+len("abc")+len("x\n")) {
		t.Errorf("%d entries, %d runs, %d bytes: %+v", len(account.spent), runs, stored, account.spent)
	}
}

// slowReader takes nothing until it is told to.
type slowReader chan struct{}

func (s slowReader) Event(context.Context, sandbox.Event) error {
	<-s
	return nil
}

// TestSlowReadersKeepNoPlace: what has ended leaves its place to others, though its output is still being read.
func TestSlowReadersKeepNoPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *engine.Config) { c.MaxRunning, c.MaxQueued = 1, 1 })
	reads, over := make(slowReader), make(chan struct{})
	go func() {
		defer close(over)
		if _, err := b.Run(t.Context(), code("print slow"), reads); err != nil {
			t.Error(err)
		}
	}()
	for begun := false; !begun; { // the slow one has its place
		begun = len(b.fake.Log()) > 0
		runtime.Gosched()
	}
	if x, err := b.Run(t.Context(), code("print quick"), nil); err != nil || x.Status != "ok" {
		t.Errorf("%+v, %v", x, err)
	}
	close(reads)
	<-over
}
