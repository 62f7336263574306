// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lone is a server that does one request after the other, each in 10 ms, and stalls once.
type lone struct {
	turn  chan struct{} // a mutex whose waiting lets the fake clock of synctest go on
	stall time.Duration
}

func newLone(stall time.Duration) *lone { return &lone{turn: make(chan struct{}, 1), stall: stall} }

func (l *lone) run(_ context.Context, began time.Time) Sample {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	time.Sleep(10*time.Millisecond + l.stall)
	l.stall = 0
	took := time.Since(began)
	return Sample{Result: took, End: took}
}

// TestOpenLoopDoesNotOmitWhatAStallDelays: every request that was due during a stall is late by what was left of it.
func TestOpenLoopDoesNotOmitWhatAStallDelays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newLone(time.Second)
		samples := openLoop(t.Context(), time.Now, 10, 2*time.Second, 100, server.run)
		if len(samples) != 20 {
			t.Fatalf("%d samples, not 20", len(samples))
		}
		for i, s := range samples {
			due := time.Duration(i) * 100 * time.Millisecond
			// The first ends after 1.01 s, those that wait then follow every 10 ms.
			want := max(10*time.Millisecond, 1010*time.Millisecond+time.Duration(i)*10*time.Millisecond-due)
			if s.End != want {
				t.Errorf("request %d, due at %v, took %v, not %v", i, due, s.End, want)
			}
		}
		late := 0
		for _, s := range samples {
			if s.End > 50*time.Millisecond {
				late++
			}
		}
		if late < 10 {
			t.Errorf("%d requests felt the stall of a second at 10 a second, not 10 or more", late)
		}
	})
}

// TestOpenLoopKeepsItsSchedule: slow requests do not put off later ones.
func TestOpenLoopKeepsItsSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := time.Now()
		var mu sync.Mutex
		var starts []time.Duration
		samples := openLoop(t.Context(), time.Now, 4, 3*time.Second, 100, func(_ context.Context, began time.Time) Sample {
			if !began.Equal(time.Now()) {
				t.Errorf("begun at %v, scheduled for %v", time.Since(first), began.Sub(first))
			}
			mu.Lock()
			starts = append(starts, time.Since(first))
			mu.Unlock()
			time.Sleep(5 * time.Second)
			return Sample{End: time.Since(began)}
		})
		slices.Sort(starts)
		for i, start := range starts {
			if want := time.Duration(i) * 250 * time.Millisecond; start != want {
				t.Errorf("run %d began at %v, not %v", i, start, want)
			}
		}
		if len(samples) != 12 || samples[11].End != 5*time.Second {
			t.Errorf("%d samples, the last %+v: not all were waited for", len(samples), samples[len(samples)-1])
		}
	})
}

// TestOpenLoopCountsWhatItCouldNotStart: a bound on what runs at once shows in the record.
func TestOpenLoopCountsWhatItCouldNotStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		samples := openLoop(t.Context(), time.Now, 10, time.Second, 2, func(context.Context, time.Time) Sample {
			time.Sleep(time.Minute)
			return Sample{}
		})
		late := 0
		for _, s := range samples {
			if errors.Is(s.Err, errLate) {
				late++
			}
		}
		if len(samples) != 10 || late != 8 {
			t.Errorf("%d samples, %d late: not 10 and 8", len(samples), late)
		}
	})
}

func TestOpenLoopEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 950*time.Millisecond)
		defer cancel()
		samples := openLoop(ctx, time.Now, 10, time.Hour, 5, func(context.Context, time.Time) Sample { return Sample{} })
		if len(samples) != 10 {
			t.Errorf("%d samples, not the 10 that had begun", len(samples))
		}
	})
}

func TestClosedLoopKeepsItsWorkersBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		samples, took := closedLoop(t.Context(), time.Now, 3, time.Second, func(_ context.Context, began time.Time) Sample {
			time.Sleep(300 * time.Millisecond)
			return Sample{End: time.Since(began)}
		})
		if len(samples) != 12 || took != 1200*time.Millisecond {
			t.Errorf("%d samples in %v, not 12 in 1.2 s", len(samples), took)
		}
	})
}

func TestAtOnceStartsAllTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		samples, took := atOnce(t.Context(), time.Now, 5, newLone(0).run)
		var ends []time.Duration
		for _, s := range samples {
			ends = append(ends, s.End)
		}
		slices.Sort(ends)
		for i, end := range ends {
			if want := time.Duration(i+1) * 10 * time.Millisecond; end != want {
				t.Errorf("request %d took %v, not %v", i, end, want)
			}
		}
		if took != 50*time.Millisecond {
			t.Errorf("all took %v", took)
		}
	})
}

func TestTakeTurnsChangesWhoBegins(t *testing.T) {
	t.Parallel()
	var order []int
	counts := make([]int, 3)
	err := takeTurns(t.Context(), 3, 3, func(_ context.Context, i int) Sample {
		order = append(order, i)
		return Sample{}
	}, func(i int, _ Sample) { counts[i]++ })
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 2, 1, 2, 0, 2, 0, 1}; !slices.Equal(order, want) {
		t.Errorf("order %v, not %v", order, want)
	}
	if !slices.Equal(counts, []int{3, 3, 3}) {
		t.Errorf("turns %v", counts)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLate)
	if err := takeTurns(ctx, 1, 1, nil, nil); !errors.Is(err, errLate) {
		t.Errorf("after the end: %v", err)
	}
}
