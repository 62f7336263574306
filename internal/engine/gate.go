// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// gate lets so many executions run and so many wait.
type gate struct {
	places  chan struct{}
	waiting atomic.Int64
	queue   int64
	wait    time.Duration
}

func newGate(places, queue int, wait time.Duration) *gate {
	return &gate{places: make(chan struct{}, places), queue: int64(queue), wait: wait}
}

// room reports whether enter would at least let the caller wait.
func (g *gate) room() bool {
	return len(g.places) < cap(g.places) || g.waiting.Load() < g.queue
}

var errQueueWait = errors.New("no place became free in time")

// enter waits for a place. The error is a Problem of CodeOverloaded, or the cause with which ctx ended.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-g.places }
	select {
	case g.places <- struct{}{}:
		return leave, nil
	default:
	}
	if g.waiting.Add(1) > g.queue {
		g.waiting.Add(-1)
		return nil, g.full()
	}
	defer g.waiting.Add(-1)
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case g.places <- struct{}{}:
		return leave, nil
	case <-timer.C:
		return nil, &Problem{
			Code: CodeOverloaded, Err: errQueueWait,
			Text: fmt.Sprintf("all %d places stayed taken for %v: try again later", cap(g.places), g.wait),
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (g *gate) full() error {
	return &Problem{Code: CodeOverloaded, Text: fmt.Sprintf(
		"all %d places are taken and %d executions wait already: try again later", cap(g.places), g.queue)}
}
