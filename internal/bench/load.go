// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// loaded is one way to be busy in the scenario sustained.
type loaded struct {
	tally   *tally
	busy    func(ctx context.Context, length time.Duration) ([]Sample, time.Duration)
	runs    int
	seconds float64
}

// plainFork is the subject that forks a warm interpreter.
const plainFork = "fork"

// slicesEach is how often each way to be busy gets its time.
const slicesEach = 2

func (r *run) sustained(ctx context.Context, report *ScenarioReport) (err error) {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	subjects := append([]Subject{c}, r.versus(ctx, Bare)...)
	for _, work := range r.works(groupbyWork()) {
		ways := r.waysToBeBusy(ctx, work, subjects)
		for range slicesEach {
			for _, way := range ways {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.say("  %s, %d at a time for %s: %s", work.Name, r.Parallel, r.Duration/slicesEach, way.tally.subject)
				r.settle(ctx)
				samples, took := way.busy(ctx, r.Duration/slicesEach)
				way.tally.samples = append(way.tally.samples, samples...)
				way.runs += succeeded(samples)
				way.seconds += took.Seconds()
			}
		}
		report.sustainedRows(ways, work)
	}
	report.note("fork is a warm interpreter without isolation that forks a child for each run: the most that any design can reach here.")
	return nil
}

func succeeded(samples []Sample) (n int) {
	for _, s := range samples {
		if s.Err == nil {
			n++
		}
	}
	return n
}

// waysToBeBusy are all subjects, and the plain fork.
func (r *run) waysToBeBusy(ctx context.Context, work Work, subjects []Subject) []*loaded {
	var ways []*loaded
	for _, s := range subjects {
		s.Run(ctx, work, r.Now())
		way := &loaded{tally: &tally{subject: s.Name(), work: work.Name, mode: fmt.Sprintf("%d at a time", r.Parallel)}}
		way.busy = func(ctx context.Context, length time.Duration) ([]Sample, time.Duration) {
			return closedLoop(ctx, r.Now, r.Parallel, length, func(ctx context.Context, began time.Time) Sample { return s.Run(ctx, work, began) })
		}
		ways = append(ways, way)
		if s.Name() == Bare {
			fork := &loaded{tally: &tally{subject: plainFork, work: work.Name, mode: way.tally.mode}}
			fork.busy = func(ctx context.Context, length time.Duration) ([]Sample, time.Duration) {
				return r.forks(ctx, s, work, length)
			}
			ways = append(ways, fork)
		}
	}
	return ways
}

// forks lets some bare interpreters fork for a while. Each reports the mean time of its children, of which so many
// samples are made as there were children.
func (r *run) forks(ctx context.Context, bare Subject, work Work, length time.Duration) ([]Sample, time.Duration) {
	var mu sync.Mutex
	var samples []Sample
	var running sync.WaitGroup
	for range r.Parallel {
		running.Go(func() {
			s := bare.Run(ctx, forkLoop(work.Code, length.Seconds()), r.Now())
			ms, _, ok := figure(s.Output)
			if s.Err == nil && (!ok || ms <= 0) {
				s.Err = errors.New("no figure in the output")
			}
			mu.Lock()
			defer mu.Unlock()
			if s.Err != nil {
				samples = append(samples, s)
				return
			}
			each := time.Duration(ms * float64(time.Millisecond))
			for range max(1, int(length/each)) {
				samples = append(samples, Sample{Result: each, End: each, Faults: unknownFaults})
			}
		})
	}
	running.Wait()
	return samples, length
}

func (s *ScenarioReport) sustainedRows(ways []*loaded, work Work) {
	rates := make(map[string]float64)
	for _, way := range ways {
		if way.tally.subject != plainFork { // its times are means
			s.add(way.tally.rows()[1])
		}
		rate := float64(way.runs) / max(way.seconds, 0.001)
		rates[way.tally.subject] = rate
		s.Figures = append(s.Figures, Figure{way.tally.subject, work.Name, "runs a second", rate, "1/s"})
	}
	for _, other := range []string{Bare, plainFork} {
		if rates[other] > 0 {
			s.Figures = append(s.Figures, Figure{Self, work.Name, "runs a second relative to " + other, rates[Self] / rates[other] * 100, "%"})
		}
	}
}
