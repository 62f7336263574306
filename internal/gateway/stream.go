// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// The names of the stream's events besides those of sandbox.EventKind.
const (
	eventStarted = "started" // the id
	eventDone    = "done"    // the record
	eventProblem = "problem" // a problem document, instead of done
)

// stream runs an execution and sends its events as they come (Server-Sent Events).
func (g *Gateway) stream(w http.ResponseWriter, r *http.Request, stay bool, run follow) {
	ctx, cancel := clientContext(r, stay)
	defer cancel()
	s := &eventStream{gateway: g, w: w, carry: map[source][]byte{}}
	x, err := run(ctx, s, s.begin)
	stopped := s.stopKeepAlive()
	switch {
	case err != nil && !stopped:
		if ctx.Err() != nil {
			panic(http.ErrAbortHandler) // the client is gone
		}
		g.fail(w, r, err)
	case err != nil:
		_ = s.send(eventProblem, problemOf(err)) // the client may have gone
	default:
		_ = s.rest()
		_ = s.send(eventDone, x)
	}
}

// eventStream is an engine.Sink. Text is valid UTF-8: a character that is cut waits for its end.
type eventStream struct {
	gateway *Gateway
	carry   map[source][]byte

	mu sync.Mutex
	w  http.ResponseWriter

	stop chan struct{}
	done chan struct{}
}

// source tells apart what must not be joined.
type source struct {
	kind       sandbox.EventKind
	background bool
}

// begin sends the headers and the id; from now on the status is 200.
func (s *eventStream) begin(id sandbox.ID) { s.open(eventStarted, map[string]sandbox.ID{"id": id}) }

// open sends the headers and the first event.
func (s *eventStream) open(name string, first any) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
	s.stop, s.done = make(chan struct{}), make(chan struct{})
	_ = s.send(name, first) // a client that has gone is seen at the next event
	go s.keepAlive()
}

// keepAlive tells proxies that the stream lives.
func (s *eventStream) keepAlive() {
	defer close(s.done)
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = s.write([]byte(": alive\n\n"))
		case <-s.stop:
			return
		}
	}
}

// stopKeepAlive reports whether the stream had begun.
func (s *eventStream) stopKeepAlive() bool {
	if s.stop == nil {
		return false
	}
	close(s.stop)
	<-s.done
	return true
}

// textEvent is the data of stdout and stderr. Base64 has the very bytes where they are not UTF-8.
type textEvent struct {
	Text       string `json:"text"`
	Base64     []byte `json:"base64,omitempty"`
	Background bool   `json:"background,omitempty"`
}

type bundleEvent struct {
	Name       string      `json:"name,omitempty"`
	Data       engine.Data `json:"data"`
	Background bool        `json:"background,omitempty"`
}

// Event sends one event.
func (s *eventStream) Event(_ context.Context, event sandbox.Event) error {
	switch event.Kind {
	case sandbox.EventStdout, sandbox.EventStderr:
		return s.text(event)
	case sandbox.EventDisplay, sandbox.EventResult, sandbox.EventValue:
		return s.send(string(event.Kind), bundleEvent{Name: event.Name, Data: event.Bundle.Data, Background: event.Background})
	case sandbox.EventError:
		return s.send(string(event.Kind), event.Fault)
	case sandbox.EventNotice:
		return s.send(string(event.Kind), event.Notice)
	}
	return nil
}

func (s *eventStream) text(event sandbox.Event) error {
	from := source{event.Kind, event.Background}
	p := append(s.carry[from], event.Text...)
	end := len(p) - unfinished(p)
	s.carry[from] = bytes.Clone(p[end:])
	return s.sendText(event.Kind, p[:end], event.Background)
}

func (s *eventStream) sendText(kind sandbox.EventKind, p []byte, background bool) error {
	if len(p) == 0 {
		return nil
	}
	data := textEvent{Text: string(p), Background: background}
	if !utf8.Valid(p) {
		data.Text, data.Base64 = strings.ToValidUTF8(data.Text, "\uFFFD"), p
	}
	return s.send(string(kind), data)
}

// rest sends the bytes of a character that never ended.
func (s *eventStream) rest() error {
	for _, from := range []source{{sandbox.EventStdout, false}, {sandbox.EventStdout, true}, {sandbox.EventStderr, false}, {sandbox.EventStderr, true}} {
		if err := s.sendText(from.kind, s.carry[from], from.background); err != nil {
			return err
		}
	}
	return nil
}

// unfinished returns how many bytes at the end of p begin a character that is not whole.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// send writes one event. JSON has no raw line ends, so it is always one data line.
func (s *eventStream) send(name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}
	return s.write(fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data))
}

func (s *eventStream) write(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gateway.allowWrite(s.w)
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}
