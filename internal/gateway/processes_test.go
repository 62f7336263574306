// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// eventReader reads Server-Sent Events.
type eventReader struct{ lines *bufio.Scanner }

type event struct{ name, data string }

func newEvents(body io.Reader) *eventReader {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 4<<20)
	return &eventReader{lines}
}

func (e *eventReader) next(t *testing.T) (found event) {
	t.Helper()
	for e.lines.Scan() {
		line := e.lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			found.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			found.data = line[len("data: "):]
		case line == "" && found.name != "":
			return found
		}
	}
	t.Fatalf("the stream ended: %v", e.lines.Err())
	return found
}

func (b *bench) follow(t *testing.T, path string) *eventReader {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", "text/event-stream")
	response, err := b.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return newEvents(response.Body)
}

// TestProcessesOfASandbox: start, input, output by offset, signal, wait, list, remove.
func TestProcessesOfASandbox(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	path := b.box(t, `{}`) + "/processes"
	one := b.send(t, path, `{"command": "cat", "stdin": true}`, http.StatusCreated).header.Get("Location")
	b.send(t, one+"/stdin", "hello ", http.StatusOK)
	b.send(t, one+"/stdin?close", "world", http.StatusOK)
	if p := b.ask(t, "GET", one+"?wait=30", "", http.StatusOK).object(t); p["state"] != "ended" {
		t.Errorf("after its input: %v", p)
	}
	a := b.ask(t, "GET", one+"/output", "", http.StatusOK)
	if a.body != "hello world" || a.header.Get("Glovebox-Output-Next") != "11" {
		t.Errorf("output: %q %v", a.body, a.header)
	}
	if a := b.ask(t, "GET", one+"/output?offset=6", "", http.StatusOK); a.body != "world" {
		t.Errorf("from 6: %q", a.body)
	}
	b.ask(t, "GET", one+"/output?offset=12", "", http.StatusBadRequest)
	b.ask(t, "GET", one+"/output?offset=x", "", http.StatusBadRequest)
	b.send(t, one+"/stdin", "more", http.StatusConflict)
	b.send(t, one+"/signal", `{"signal": "TERM"}`, http.StatusConflict)

	deaf := b.send(t, path, `{"command": "deaf", "stdin": true}`, http.StatusCreated).header.Get("Location")
	if a := b.send(t, deaf+"/stdin", "x", http.StatusConflict); !strings.Contains(a.body, "does not read") {
		t.Errorf("deaf: %s", a.body)
	}
	b.send(t, deaf+"/resize", `{"rows": 3, "cols": 4}`, http.StatusBadRequest)
	b.send(t, deaf+"/signal", `{"signal": "SIGNONE"}`, http.StatusBadRequest)
	b.send(t, deaf+"/signal", `{"signal": 99}`, http.StatusBadRequest)
	if p := b.ask(t, "GET", deaf+"?wait=0.05", "", http.StatusOK).object(t); p["state"] != "running" {
		t.Errorf("still at work: %v", p)
	}
	b.send(t, deaf+"/signal", `{"signal": "term"}`, http.StatusNoContent)
	ended := b.ask(t, "GET", deaf+"?wait=30", "", http.StatusOK)
	if !strings.Contains(ended.body, `"signal":15`) || !strings.Contains(ended.body, `"end":"signal"`) {
		t.Errorf("signalled: %s", ended.body)
	}
	if list := b.ask(t, "GET", path, "", http.StatusOK); !strings.Contains(list.body, `"p1"`) || !strings.Contains(list.body, `"p2"`) {
		t.Errorf("list: %s", list.body)
	}
	b.ask(t, "DELETE", one, "", http.StatusNoContent)
	b.ask(t, "GET", one, "", http.StatusNotFound)
	refused := b.send(t, path, `{"args": ["a\u0000"], "wall": "48h", "terminal": {"rows": 0, "cols": 9}, "dir": "../..", "env": {"A B": ""}}`, http.StatusBadRequest)
	for _, fault := range []string{"no program", "NUL", "wall", "terminal of 0 rows", "leads out", "environment variable"} {
		if !strings.Contains(refused.body, fault) {
			t.Errorf("%q is not named: %s", fault, refused.body)
		}
	}
	b.send(t, path, `{"command": "none"}`, http.StatusBadRequest)
}

// TestOutputOfAProcessIsBounded: the last of it is kept, and who comes late is told how much is lost.
func TestOutputOfAProcessIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	one := b.send(t, b.box(t, `{}`)+"/processes", `{"command": "flood", "args": ["1000000"]}`, http.StatusCreated).header.Get("Location")
	b.ask(t, "GET", one+"?wait=30", "", http.StatusOK)
	a := b.ask(t, "GET", one+"/output", "", http.StatusOK)
	if len(a.body) != 256<<10 || a.header.Get("Glovebox-Output-Next") != "1000000" {
		t.Errorf("%d bytes, %v", len(a.body), a.header)
	}
	stream := b.follow(t, one+"/output?offset=10")
	if e := stream.next(t); e.name != "ready" {
		t.Errorf("first %+v", e)
	}
	if e := stream.next(t); e.name != "lost" || e.data != `{"bytes":737846}` {
		t.Errorf("then %+v", e)
	}
	for e := stream.next(t); e.name != "done"; e = stream.next(t) {
		if e.name != "stdout" {
			t.Errorf("then %.100v", e)
		}
	}
}

// TestProcessesAreBounded: the oldest that has ended makes room, and one that runs does not.
func TestProcessesAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	path := b.box(t, `{}`) + "/processes"
	for range 20 {
		one := b.send(t, path, `{"command": "exit", "args": ["3"]}`, http.StatusCreated).header.Get("Location")
		if p := b.ask(t, "GET", one+"?wait=30", "", http.StatusOK); !strings.Contains(p.body, `"exit_code":3`) {
			t.Errorf("ended: %s", p.body)
		}
	}
	for range 16 {
		b.send(t, path, `{"command": "sleep"}`, http.StatusCreated)
	}
	b.send(t, path, `{"command": "sleep"}`, http.StatusTooManyRequests)
}

// TestTerminal: output and input over a WebSocket, a new size, leaving and coming back, the end.
func TestTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	one := b.send(t, b.box(t, `{}`)+"/processes", `{"command": "cat", "terminal": {"rows": 24, "cols": 80}}`, http.StatusCreated).header.Get("Location")
	dial := func(query string) *websocket.Conn {
		t.Helper()
		header := http.Header{"Authorization": {"Bearer " + token}}
		conn, response, err := websocket.Dial(t.Context(), b.URL+one+"/attach"+query, &websocket.DialOptions{HTTPClient: b.Client(), HTTPHeader: header})
		if err != nil {
			t.Fatal(err)
		}
		if response.Body != nil {
			response.Body.Close()
		}
		return conn
	}
	say := func(conn *websocket.Conn, kind websocket.MessageType, text string) {
		t.Helper()
		if err := conn.Write(t.Context(), kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	var message struct {
		Type    string
		Offset  int64
		Problem struct{ Code, Detail string }
		Process struct{ State string }
	}
	// until reads to a text message of that type, and returns the output before it.
	until := func(conn *websocket.Conn, kind string) (output string) {
		t.Helper()
		for {
			got, data, err := conn.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got == websocket.MessageBinary {
				if output += string(data); kind == "" {
					return output
				}
				continue
			}
			if err := json.Unmarshal(data, &message); err != nil {
				t.Fatal(err)
			}
			if message.Type == kind {
				return output
			}
		}
	}
	first := dial("")
	until(first, "ready")
	say(first, websocket.MessageText, `{"type": "resize", "rows": 30, "cols": 100}`)
	if out := until(first, ""); out != "30 rows, 100 columns\n" {
		t.Errorf("resized: %q", out)
	}
	say(first, websocket.MessageText, `{"type": "resize", "rows": 0, "cols": 5000}`)
	until(first, "problem")
	say(first, websocket.MessageText, `{"type": "odd"}`)
	until(first, "problem")
	if !strings.Contains(message.Problem.Detail, "odd") {
		t.Errorf("an odd message: %+v", message)
	}
	say(first, websocket.MessageBinary, "ls\r")
	if out := until(first, ""); out != "ls\r" {
		t.Errorf("input: %q", out)
	}
	if err := first.CloseNow(); err != nil {
		t.Log(err)
	}
	second := dial("?offset=21")
	until(second, "ready")
	if out := until(second, ""); out != "ls\r" {
		t.Errorf("back again: %q", out)
	}
	say(second, websocket.MessageText, `{"type": "close"}`)
	until(second, "ended")
	if message.Process.State != "ended" || message.Offset != 24 {
		t.Errorf("the end: %+v", message)
	}
	if _, _, err := second.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("afterwards: %v", err)
	}
	// What is no WebSocket is told so.
	if a := b.do(t, "GET", one+"/attach", "", ""); a.status != http.StatusUpgradeRequired {
		t.Errorf("a plain GET: %d %s", a.status, a.body)
	}
}
