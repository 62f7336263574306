// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// runFunc runs once. Latency counts from began.
type runFunc func(ctx context.Context, began time.Time) Sample

// errLate is the error of a scheduled run for which there was no room.
var errLate = errors.New("not started: too many earlier runs were not over")

// openLoop starts a run at every 1/rate seconds for a while, whether or not the earlier ones are over, and waits for all
// of them. Each counts from its scheduled moment, so that what delays the start is part of the latency. At most most run
// at once: what would exceed it is an error, not a gap in the record.
func openLoop(ctx context.Context, now func() time.Time, rate float64, length time.Duration, most int, run runFunc) []Sample {
	count := max(1, int(rate*length.Seconds()))
	samples := make([]Sample, count)
	room := make(chan struct{}, most)
	var running sync.WaitGroup
	first, started := now(), 0
	for i := range count {
		scheduled := first.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if !sleepUntil(ctx, now, scheduled) {
			break
		}
		started++
		select {
		case room <- struct{}{}:
		default:
			samples[i] = failed(errLate)
			continue
		}
		running.Go(func() {
			defer func() { <-room }()
			samples[i] = run(ctx, scheduled)
		})
	}
	running.Wait()
	return samples[:started]
}

// sleepUntil reports whether the moment came before ctx ended.
func sleepUntil(ctx context.Context, now func() time.Time, moment time.Time) bool {
	wait := moment.Sub(now())
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// closedLoop keeps workers busy until the time is over, each with its next run as soon as its last one is over, and
// returns the samples and the time from the first start to the last end.
func closedLoop(ctx context.Context, now func() time.Time, workers int, length time.Duration, run runFunc) ([]Sample, time.Duration) {
	var mu sync.Mutex
	var samples []Sample
	var running sync.WaitGroup
	first := now()
	for range workers {
		running.Go(func() {
			for now().Sub(first) < length && ctx.Err() == nil {
				s := run(ctx, now())
				mu.Lock()
				samples = append(samples, s)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return samples, now().Sub(first)
}

// atOnce starts n runs at the same moment and waits for all of them.
func atOnce(ctx context.Context, now func() time.Time, n int, run runFunc) ([]Sample, time.Duration) {
	samples := make([]Sample, n)
	var running sync.WaitGroup
	began := now()
	for i := range n {
		running.Go(func() { samples[i] = run(ctx, began) })
	}
	running.Wait()
	return samples, now().Sub(began)
}

// takeTurns lets each of several do one run, rounds times, and calls add with what came out. The one that begins a round
// changes, so that nobody always follows the same neighbour.
func takeTurns(ctx context.Context, rounds, several int, run func(ctx context.Context, index int) Sample, add func(index int, s Sample)) error {
	for round := range rounds {
		for turn := range several {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			index := (turn + round) % several
			add(index, run(ctx, index))
		}
	}
	return nil
}
