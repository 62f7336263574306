// SPDX-License-Identifier: Apache-2.0

package pool_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"glovebox/internal/pool"
	"glovebox/internal/sandbox"
)

// factory is a backend that makes stubs.
type factory struct {
	sandbox.Backend
	mu     sync.Mutex
	made   int
	living map[sandbox.ID]*stub
	fail   error
	sick   bool // what is made next gives no sign of life
	closed bool
}

type stub struct {
	sandbox.Sandbox
	factory *factory
	handle  sandbox.Handle
	class   sandbox.Class
	sick    bool
}

func (f *factory) Name() string { return "stub" }

func (f *factory) Create(_ context.Context, id sandbox.ID, class sandbox.Class) (sandbox.Sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	if f.fail != nil {
		return nil, f.fail
	}
	s := &stub{factory: f, handle: sandbox.Handle{Backend: "stub", ID: id}, class: class, sick: f.sick}
	f.sick = false
	f.living[id] = s
	return s, nil
}

func (f *factory) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *factory) count() (made, living int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.made, len(f.living)
}

func (s *stub) Handle() sandbox.Handle { return s.handle }

func (s *stub) Check(context.Context) error {
	if s.sick {
		return errors.New("no answer")
	}
	return nil
}

func (s *stub) Destroy(context.Context) error {
	s.factory.mu.Lock()
	defer s.factory.mu.Unlock()
	delete(s.factory.living, s.handle.ID)
	return nil
}

func plain() sandbox.Class { return sandbox.Class{Image: "i", Warm: sandbox.WarmPlain} }

func config(change func(*pool.Config)) pool.Config {
	var mu sync.Mutex
	n := 0
	c := pool.Config{
		Min: 2, Max: 5, Total: 8, Fillers: 2, MaxAge: time.Hour, Window: 5 * time.Second, Forget: 10 * time.Minute,
		Retry: 10 * time.Second, Pause: 20 * time.Millisecond, Check: time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		NewID: func() sandbox.ID {
			mu.Lock()
			defer mu.Unlock()
			n++
			return sandbox.ID(fmt.Sprintf("made%d", n))
		},
	}
	if change != nil {
		change(&c)
	}
	return c
}

// inBubble runs a test of a pool in virtual time. Everything that was made is gone at the end.
func inBubble(t *testing.T, c func(*pool.Config), test func(t *testing.T, p *pool.Pool, f *factory)) {
	t.Helper()
	inBubbleWith(t, &factory{}, c, test)
}

func inBubbleWith(t *testing.T, f *factory, c func(*pool.Config), test func(t *testing.T, p *pool.Pool, f *factory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f.living = make(map[sandbox.ID]*stub)
		p, err := pool.New(f, config(c))
		if err != nil {
			t.Fatal(err)
		}
		test(t, p, f)
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, living := f.count(); living != 0 || !f.closed {
			t.Errorf("after Close %d sandboxes live, backend closed: %v", living, f.closed)
		}
	})
}

func acquire(t *testing.T, p *pool.Pool, id string, class sandbox.Class) sandbox.Sandbox {
	t.Helper()
	box, err := p.Create(t.Context(), sandbox.ID(id), class)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func release(t *testing.T, boxes ...sandbox.Sandbox) {
	t.Helper()
	for _, box := range boxes {
		if err := box.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// settle lets the pool's pause pass, and what it does then.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func isReady(box sandbox.Sandbox) bool {
	ready, ok := box.(interface{ Ready() bool })
	return ok && ready.Ready()
}

// TestFirstMissThenHits: the first request of a class is made for it; then Min stand ready.
func TestFirstMissThenHits(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, p *pool.Pool, _ *factory) {
		first := acquire(t, p, "a", plain())
		settle()
		second := acquire(t, p, "b", plain())
		if isReady(first) || !isReady(second) {
			t.Errorf("first ready %v, second ready %v", isReady(first), isReady(second))
		}
		settle()
		if stats := p.Stats(); stats.Hits != 1 || stats.Misses != 1 || stats.Ready[plain()] != 2 {
			t.Errorf("stats %+v", stats)
		}
		release(t, first, second)
	})
}

// TestKeptFromTheStart: a class of the configuration is ready before anybody asks, and is not forgotten.
func TestKeptFromTheStart(t *testing.T) {
	inBubble(t, func(c *pool.Config) { c.Keep = []sandbox.Class{plain()} }, func(t *testing.T, p *pool.Pool, _ *factory) {
		settle()
		time.Sleep(time.Hour / 2)
		box := acquire(t, p, "a", plain())
		if !isReady(box) {
			t.Error("not ready")
		}
		release(t, box)
	})
}

// TestServedFirst: a shelf that holds enough waits with its next fill until whom it served has had the processors; one that runs
// low does not wait.
func TestServedFirst(t *testing.T) {
	inBubble(t, func(c *pool.Config) { c.Keep, c.Min = []sandbox.Class{plain()}, 4 }, func(t *testing.T, p *pool.Pool, _ *factory) {
		settle()
		ready := func() int { synctest.Wait(); return p.Stats().Ready[plain()] }
		boxes := []sandbox.Sandbox{acquire(t, p, "a", plain()), acquire(t, p, "b", plain())}
		if n := ready(); n != 2 {
			t.Errorf("%d ready right after two of four were taken: the shelf did not wait", n)
		}
		boxes = append(boxes, acquire(t, p, "c", plain()))
		if n := ready(); n != 2 {
			t.Errorf("%d ready after the third: the shelf waited below half of its target", n)
		}
		settle()
		if n := ready(); n != 4 {
			t.Errorf("%d ready after the pause, want the target", n)
		}
		release(t, boxes...)
	})
}

// TestSameIDSameSandbox: creation stays idempotent by id, until the sandbox is destroyed.
func TestSameIDSameSandbox(t *testing.T) {
	inBubble(t, func(c *pool.Config) { c.Keep = []sandbox.Class{plain()} }, func(t *testing.T, p *pool.Pool, _ *factory) {
		settle()
		one, again := acquire(t, p, "a", plain()), acquire(t, p, "a", plain())
		if one.Handle() != again.Handle() {
			t.Errorf("%v and %v", one.Handle(), again.Handle())
		}
		release(t, one)
		other := acquire(t, p, "a", plain())
		if other.Handle() == one.Handle() {
			t.Error("a destroyed sandbox was handed out again")
		}
		release(t, other)
	})
}

// TestTargetFollowsDemand: after a burst as many stand ready as were asked for, at most Max; later Min again.
func TestTargetFollowsDemand(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, p *pool.Pool, _ *factory) {
		for n := range 9 {
			release(t, acquire(t, p, fmt.Sprintf("a%d", n), plain()))
		}
		settle()
		if ready := p.Stats().Ready[plain()]; ready != 5 {
			t.Errorf("%d ready after the burst, want Max", ready)
		}
		time.Sleep(2 * time.Hour) // forgotten
		if stats := p.Stats(); len(stats.Ready) != 0 {
			t.Errorf("ready long after: %+v", stats.Ready)
		}
	})
}

// TestTotalBoundsAllClasses: many classes together stay within Total.
func TestTotalBoundsAllClasses(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, p *pool.Pool, f *factory) {
		for n := range 20 {
			class := plain()
			class.Image = fmt.Sprint("image", n)
			release(t, acquire(t, p, fmt.Sprintf("a%d", n), class))
			settle()
		}
		if _, living := f.count(); living != 8 {
			t.Errorf("%d ready, want Total", living)
		}
	})
}

// TestOldOnesAreReplaced: a ready sandbox older than MaxAge is not handed out.
func TestOldOnesAreReplaced(t *testing.T) {
	keep := func(c *pool.Config) { c.Keep = []sandbox.Class{plain()} }
	inBubble(t, keep, func(t *testing.T, p *pool.Pool, _ *factory) {
		settle()
		time.Sleep(time.Hour + time.Minute)
		settle()
		box := acquire(t, p, "a", plain())
		if id := box.Handle().ID; id == "made1" || id == "made2" {
			t.Errorf("handed out %s, which is over an hour old", id)
		}
		release(t, box)
	})
}

// TestUnfitIsNotHandedOut: a ready sandbox that gives no sign of life is destroyed and the next one taken.
func TestUnfitIsNotHandedOut(t *testing.T) {
	keep := func(c *pool.Config) { c.Keep = []sandbox.Class{plain()} }
	inBubbleWith(t, &factory{sick: true}, keep, func(t *testing.T, p *pool.Pool, _ *factory) {
		settle()
		box := acquire(t, p, "a", plain())
		if box.Handle().ID != "made2" || !isReady(box) {
			t.Errorf("handed out %s, ready %v", box.Handle().ID, isReady(box))
		}
		if stats := p.Stats(); stats.Unfit != 1 {
			t.Errorf("stats %+v", stats)
		}
		release(t, box)
	})
}

// TestFailureIsRetriedLater: a backend that cannot make sandboxes is asked again after Retry, not at once; requests get
// its error.
func TestFailureIsRetriedLater(t *testing.T) {
	keep := func(c *pool.Config) { c.Keep = []sandbox.Class{plain()} }
	broken := errors.New("broken")
	inBubble(t, keep, func(t *testing.T, p *pool.Pool, f *factory) {
		f.mu.Lock()
		f.fail = broken
		f.mu.Unlock()
		time.Sleep(25 * time.Second)
		if made, _ := f.count(); made > 8 {
			t.Errorf("asked %d times in 25 s", made)
		}
		release(t, drain(t, p)...)
		if _, err := p.Create(t.Context(), "x", plain()); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		f.mu.Lock()
		f.fail = nil
		f.mu.Unlock()
		time.Sleep(11 * time.Second)
		settle()
		if ready := p.Stats().Ready[plain()]; ready == 0 {
			t.Error("nothing ready after the backend was mended")
		}
	})
}

// drain takes whatever was made before the backend broke.
func drain(t *testing.T, p *pool.Pool) []sandbox.Sandbox {
	t.Helper()
	var boxes []sandbox.Sandbox
	for n := 0; p.Stats().Ready[plain()] > 0; n++ {
		boxes = append(boxes, acquire(t, p, fmt.Sprintf("drain%d", n), plain()))
	}
	return boxes
}

// TestChartTakesPlain: without a ready chart sandbox a plain one is handed out rather than one made.
func TestChartTakesPlain(t *testing.T) {
	keep := func(c *pool.Config) { c.Keep = []sandbox.Class{plain()} }
	inBubble(t, keep, func(t *testing.T, p *pool.Pool, _ *factory) {
		settle()
		chart := plain()
		chart.Warm = sandbox.WarmChart
		box := acquire(t, p, "a", chart)
		if !isReady(box) {
			t.Error("not a ready one")
		}
		release(t, box)
	})
}

// TestColdIsNotPooled: a class without warmth goes to the backend.
func TestColdIsNotPooled(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, p *pool.Pool, f *factory) {
		box := acquire(t, p, "a", sandbox.Class{Image: "i"})
		settle()
		if made, _ := f.count(); made != 1 || isReady(box) {
			t.Errorf("%d made, ready %v", made, isReady(box))
		}
		release(t, box)
	})
}

// TestBoundsAreChecked: sizes that make no sense are refused, zero included.
func TestBoundsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*pool.Config){
		"no min":          func(c *pool.Config) { c.Min = 0 },
		"max below min":   func(c *pool.Config) { c.Max = 1 },
		"total below max": func(c *pool.Config) { c.Total = 4 },
		"no age":          func(c *pool.Config) { c.MaxAge = 0 },
	} {
		if _, err := pool.New(&factory{}, config(change)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
