// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func testGate(places, queue, each int, wait time.Duration) *gate {
	g := newGate(time.Now)
	g.set(places, queue, each, wait)
	return g
}

// TestPlacesGoRound: a tenant that asks for a hundred at once delays another's one run by one turn, not by a hundred.
func TestPlacesGoRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := testGate(1, 300, 200, time.Hour)
		var mu sync.Mutex
		var order []string
		start := func(tenant string) {
			ticket, err := g.join(tenant)
			if err != nil {
				t.Error(err)
				return
			}
			go func() {
				defer ticket.leave()
				if err := ticket.enter(t.Context()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
				time.Sleep(time.Second)
			}()
		}
		for range 100 {
			start("greedy")
		}
		start("b")
		start("c")
		start("b")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := strings.Join(order[:7], " "); got != "greedy greedy b c greedy b greedy" || len(order) != 103 {
			t.Errorf("%d ran, the first were %s", len(order), got)
		}
	})
}

// TestGateHoldsItsBounds: whoever comes, leaves, gives up or is refused, never more than the places run, nobody's line is
// longer than allowed, and in the end nothing is counted.
func TestGateHoldsItsBounds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			places, queue := 1+random.IntN(4), random.IntN(20)
			each := 1 + random.IntN(8)
			g := testGate(places, queue, each, time.Duration(1+random.IntN(20))*time.Second)
			var running, refused, ran, late, left atomic.Int64
			for range 300 {
				tenant := strconv.Itoa(random.IntN(5))
				arrives, stays := time.Duration(random.IntN(60))*time.Second, time.Duration(random.IntN(5000))*time.Millisecond
				ctx, cancel := context.WithCancelCause(t.Context())
				if random.IntN(4) == 0 {
					time.AfterFunc(arrives+time.Duration(random.IntN(3000))*time.Millisecond, func() { cancel(ErrLeft) })
				}
				go func() {
					defer cancel(nil)
					time.Sleep(arrives)
					ticket, err := g.join(tenant)
					if err != nil {
						refused.Add(1)
						return
					}
					defer ticket.leave()
					defer ticket.leave() // twice is once
					switch err := ticket.enter(ctx); {
					case err == nil:
						if n := running.Add(1); n > int64(places) {
							t.Errorf("seed %d: %d run in %d places", seed, n, places)
						}
						time.Sleep(stays)
						running.Add(-1)
						ran.Add(1)
					case errors.Is(err, ErrLeft):
						left.Add(1)
					case errors.Is(err, errQueueWait):
						late.Add(1)
					default:
						t.Error(err)
					}
				}()
			}
			for range 90 {
				time.Sleep(time.Second)
				g.mu.Lock()
				waiting := 0
				for tenant, line := range g.lines {
					if len(line) == 0 || len(line) > each {
						t.Errorf("seed %d: %d of tenant %s wait, at most %d may", seed, len(line), tenant, each)
					}
					waiting += len(line)
				}
				if waiting != g.waiting || waiting > queue || len(g.turn) != len(g.lines) || waiting > 0 && g.taken < g.places {
					t.Errorf("seed %d: %d wait, %d are counted, %d tenants of %d have a turn, %d of %d places are taken",
						seed, waiting, g.waiting, len(g.turn), len(g.lines), g.taken, g.places)
				}
				g.mu.Unlock()
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if n := ran.Load() + refused.Load() + late.Load() + left.Load(); n != 300 || ran.Load() == 0 {
				t.Errorf("seed %d: %d ran, %d were refused, %d waited too long, %d gave up", seed, ran.Load(), refused.Load(), late.Load(), left.Load())
			}
			if a, b := g.load(); a != 0 || b != 0 || len(g.lines) != 0 || len(g.turn) != 0 {
				t.Errorf("seed %d: %d run, %d wait, lines %v", seed, a, b, g.lines)
			}
		})
	}
}

// TestMorePlacesAreGivenAtOnce: a change of the settings needs no execution to end.
func TestMorePlacesAreGivenAtOnce(t *testing.T) {
	t.Parallel()
	g := testGate(1, 5, 5, time.Hour)
	first, err := g.join("a")
	if err != nil {
		t.Fatal(err)
	}
	second, err := g.join("a")
	if err != nil {
		t.Fatal(err)
	}
	g.set(2, 5, 5, time.Hour)
	if err := second.enter(t.Context()); err != nil {
		t.Error(err)
	}
	g.set(1, 5, 5, time.Hour)
	third, err := g.join("a")
	if err != nil {
		t.Fatal(err)
	}
	first.leave()
	select {
	case <-third.ready:
		t.Error("two run in one place")
	default:
	}
	second.leave()
	<-third.ready
	third.leave()
}

// TestRefusalSaysWhenToRetry: longer when those that run take long, within bounds.
func TestRefusalSaysWhenToRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := testGate(1, 0, 0, time.Hour)
		refusal := func(held time.Duration) time.Duration {
			ticket, err := g.join("a")
			if err != nil {
				t.Fatal(err)
			}
			defer ticket.leave()
			time.Sleep(held)
			_, err = g.join("a")
			problem, ok := errors.AsType[*Problem](err)
			if !ok || problem.Code != CodeOverloaded {
				t.Fatal(err)
			}
			return problem.RetryAfter
		}
		for range 3 {
			refusal(0)
		}
		if got := refusal(40 * time.Second); got != leastRetry {
			t.Errorf("at first: %v", got)
		}
		short := refusal(0)
		for range 100 {
			refusal(time.Hour)
		}
		if long := refusal(0); short <= leastRetry || long != mostRetry {
			t.Errorf("after one long run %v, after many %v", short, long)
		}
	})
}
