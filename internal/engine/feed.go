// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"glovebox/internal/sandbox"
)

// Sink receives the events of an execution in order, on one goroutine. When it returns an error it is not called again.
// It may be slow: the program does not wait for it.
type Sink interface {
	Event(ctx context.Context, event sandbox.Event) error
}

// SinkFunc is a function as a Sink.
type SinkFunc func(ctx context.Context, event sandbox.Event) error

// Event calls f.
func (f SinkFunc) Event(ctx context.Context, event sandbox.Event) error { return f(ctx, event) }

// MaxFeed bounds the events that wait for a slow sink. Beyond it pieces of one stream are joined: nothing is lost, but
// the order between the two streams becomes coarse.
const MaxFeed = 4096

const feedChunk = 32 << 10

// feed carries events to a sink. What was printed is not held in memory: an item points into the stream's file.
type feed struct {
	sink Sink

	mu     sync.Mutex
	items  []feedItem
	closed bool
	wake   chan struct{}
	done   chan struct{}
}

type feedItem struct {
	event  sandbox.Event
	stream *stream // nil for an event that is whole
	offset int64
	length int64
}

func newFeed(sink Sink) *feed {
	return &feed{sink: sink, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// start begins to deliver; wait ends it.
func (f *feed) start(ctx context.Context) {
	if f.sink == nil {
		close(f.done)
		return
	}
	go func() {
		defer close(f.done)
		f.deliver(ctx)
	}()
}

// push adds an event.
func (f *feed) push(event sandbox.Event) { f.add(feedItem{event: event}) }

// pushRange adds a piece of a stream.
func (f *feed) pushRange(event sandbox.Event, s *stream, offset, length int64) {
	if length > 0 {
		event.Text = nil
		f.add(feedItem{event: event, stream: s, offset: offset, length: length})
	}
}

func (f *feed) add(item feedItem) {
	if f.sink == nil {
		return
	}
	f.mu.Lock()
	if !f.closed && !f.joinLocked(item) {
		f.items = append(f.items, item)
	}
	f.mu.Unlock()
	f.signal()
}

// joinLocked adds a piece to the last one of the same stream, when they follow each other or the feed is full.
func (f *feed) joinLocked(item feedItem) bool {
	if item.stream == nil {
		return false
	}
	for i := len(f.items) - 1; i >= 0; i-- {
		last := &f.items[i]
		full := len(f.items) >= MaxFeed
		if last.stream == item.stream && last.offset+last.length == item.offset && (full || last.event.Kind == item.event.Kind) {
			last.length += item.length
			return true
		}
		if !full {
			return false
		}
	}
	return false
}

func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// close says that no more events come.
func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.signal()
}

// wait returns when everything was delivered or the sink gave up.
func (f *feed) wait() { <-f.done }

func (f *feed) deliver(ctx context.Context) {
	buffer := make([]byte, feedChunk)
	for {
		item, ok := f.next(ctx)
		if !ok || f.send(ctx, item, buffer) != nil {
			f.abandon()
			return
		}
	}
}

// abandon lets later events go.
func (f *feed) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.items = true, nil
}

func (f *feed) next(ctx context.Context) (feedItem, bool) {
	for {
		f.mu.Lock()
		if len(f.items) > 0 {
			item := f.items[0]
			f.items = f.items[1:]
			f.mu.Unlock()
			return item, true
		}
		closed := f.closed
		f.mu.Unlock()
		if closed {
			return feedItem{}, false
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return feedItem{}, false
		}
	}
}

func (f *feed) send(ctx context.Context, item feedItem, buffer []byte) error {
	if item.stream == nil {
		return f.sink.Event(ctx, item.event)
	}
	for item.length > 0 {
		n, err := item.stream.file.ReadAt(buffer[:min(int64(len(buffer)), item.length)], item.offset)
		if n == 0 {
			return fmt.Errorf("read back %s: %w", item.stream.name, errors.Join(err, io.ErrUnexpectedEOF))
		}
		item.event.Text = buffer[:n]
		if err := f.sink.Event(ctx, item.event); err != nil {
			return err
		}
		item.offset += int64(n)
		item.length -= int64(n)
	}
	return nil
}
