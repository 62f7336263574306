// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// event is one event of a stream.
type event struct {
	name string
	data []byte
}

type events []event

func (e events) last() event {
	if len(e) == 0 {
		return event{}
	}
	return e[len(e)-1]
}

func (e events) names() (names []string) {
	for _, one := range e {
		names = append(names, one.name)
	}
	return names
}

// text joins the pieces of a stream.
func (e events) text(t *testing.T, stream string) string {
	t.Helper()
	var all strings.Builder
	for _, one := range e {
		if one.name != stream {
			continue
		}
		var piece struct{ Text string }
		if err := json.Unmarshal(one.data, &piece); err != nil || !utf8.Valid(one.data) || strings.ContainsRune(piece.Text, utf8.RuneError) {
			t.Fatalf("%v: %.200q", err, one.data)
		}
		all.WriteString(piece.Text)
	}
	return all.String()
}

// listener reads events as they come.
type listener struct {
	body    io.ReadCloser
	scanner *bufio.Scanner
	id      string
}

// listen begins a streamed execution; what arrives is cut into the smallest pieces.
func (s *server) listen(t *testing.T, path string, c call) *listener {
	t.Helper()
	request, err := s.request(t.Context(), http.MethodPost, path, "application/json", bytes.NewReader(encode(t, c)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || kind != "text/event-stream" {
		response.Body.Close()
		t.Fatalf("status %d, %s", response.StatusCode, kind)
	}
	l := &listener{body: response.Body, scanner: bufio.NewScanner(iotest.HalfReader(response.Body))}
	l.scanner.Buffer(nil, 64<<20)
	first, ok := l.next(t)
	var started struct{ ID string }
	if err := json.Unmarshal(first.data, &started); !ok || err != nil || first.name != "started" || started.ID == "" {
		t.Fatalf("the first event is %v: %v", first, err)
	}
	l.id = started.ID
	return l
}

// next returns the next event, until the stream ends.
func (l *listener) next(t *testing.T) (e event, ok bool) {
	t.Helper()
	for l.scanner.Scan() {
		line := l.scanner.Bytes()
		switch {
		case len(line) == 0 && e.name != "":
			if !json.Valid(e.data) {
				t.Fatalf("event %s is not JSON: %.200q", e.name, e.data)
			}
			return e, true
		case bytes.HasPrefix(line, []byte("event: ")):
			e.name = string(line[len("event: "):])
		case bytes.HasPrefix(line, []byte("data: ")):
			e.data = bytes.Clone(line[len("data: "):])
		case len(line) == 0, bytes.HasPrefix(line, []byte(":")):
		default:
			t.Fatalf("a line that is no event: %.200q", line)
		}
	}
	return event{}, false
}

// await reads until what is printed contains the words.
func (l *listener) await(t *testing.T, words string) {
	t.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), words) {
		e, ok := l.next(t)
		if !ok || e.name == "done" {
			t.Fatalf("%q never came: %s", words, seen.String())
		}
		var piece struct{ Text string }
		if e.name == "stdout" && json.Unmarshal(e.data, &piece) == nil {
			seen.WriteString(piece.Text)
		}
	}
}

// events runs code and returns all its events but the first.
func (s *server) events(t *testing.T, path string, c call) (all events) {
	t.Helper()
	l := s.listen(t, path, c)
	defer l.body.Close()
	for {
		e, ok := l.next(t)
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

// contextWithout is for clean-up, when the test's own context has ended.
func contextWithout(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}
