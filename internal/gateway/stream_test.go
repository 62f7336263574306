// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"glovebox/internal/engine"
	"glovebox/internal/gateway"
)

// events reads a stream.
func events(t *testing.T, body string) (names []string, data map[string][]string) {
	t.Helper()
	data = map[string][]string{}
	name := ""
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = value
			names = append(names, name)
		}
		if value, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			data[name] = append(data[name], value)
		}
	}
	return names, data
}

func accept(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }

func TestStream(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	a := b.post(t, code("print hello", "eprint oh", "value 42", "notice careful now", "raise E boom"), accept)
	names, data := events(t, a.body)
	if want := "started stdout stderr result notice error done"; a.status != 200 || strings.Join(names, " ") != want {
		t.Errorf("%d, %v", a.status, names)
	}
	if data["stdout"][0] != `{"text":"hello\n"}` || data["result"][0] != `{"data":{"text/plain":"42"}}` {
		t.Errorf("got %v", data)
	}
	var x engine.Execution
	if err := json.Unmarshal([]byte(data["done"][0]), &x); err != nil || x.Status != "error" || x.Stdout != "hello\n" {
		t.Errorf("%v, %+v", err, x)
	}
	b.post(t, map[string]any{"code": "x", "policy": "lax"}, accept).want(t, 400, "invalid_request")
}

func TestStreamIsAlwaysText(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	var lines []string
	text := strings.Repeat("é漢🙂", 50)
	for _, c := range []byte(text) {
		lines = append(lines, fmt.Sprintf(`bytes \x%02x`, c))
	}
	lines = append(lines, `bytes \xff!`, `ebytes \xe6`)
	_, data := events(t, b.post(t, code(lines...), accept).body)
	var all strings.Builder
	raw := 0
	for _, one := range append(data["stdout"], data["stderr"]...) {
		var e struct {
			Text   string `json:"text"`
			Base64 []byte `json:"base64"`
		}
		if err := json.Unmarshal([]byte(one), &e); err != nil {
			t.Fatal(err)
		}
		all.WriteString(e.Text)
		raw += len(e.Base64)
	}
	if all.String() != text+"\uFFFD!\uFFFD" || raw < 3 {
		t.Errorf("got %q, %d raw bytes", all.String(), raw)
	}
}

func TestClientLeaves(t *testing.T) {
	t.Parallel()
	for _, stay := range []bool{false, true} {
		b := newBench(t, change{})
		ctx, cancel := context.WithCancelCause(t.Context())
		body := fmt.Sprintf(`{"code":"print begun\nspin","cancel_on_disconnect":%v,"limits":{"wall":0.3}}`, !stay)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/executions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}, "Accept": {"text/event-stream"}}
		response, err := b.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		id := ""
		for lines := bufio.NewReader(response.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if _, after, ok := strings.Cut(line, `{"id":"`); ok {
				id = strings.TrimSuffix(strings.TrimSpace(after), `"}`)
			}
			if strings.Contains(line, "begun") {
				break
			}
		}
		cancel(errors.New("the client leaves"))
		response.Body.Close()
		want := map[bool]string{false: "canceled", true: "wall_timeout"}[stay]
		for {
			x := b.do(t, "GET", "/v1/executions/"+id, "", "").object(t)
			if status := x["status"]; status != "running" {
				if status != want {
					t.Errorf("stay %v: status %v, want %s", stay, status, want)
				}
				break
			}
		}
		if len(b.fake.Living()) != 0 {
			t.Error("a sandbox is left")
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("a\xff\xe6"), []byte("\n\ndata: x"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		body := gateway.EncodeForTest(one, two)
		for line := range bytes.SplitSeq(bytes.TrimSuffix(body, []byte("\n\n")), []byte("\n")) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && !json.Valid(data) {
				t.Errorf("not JSON: %q", data)
			} else if !ok && len(line) > 0 && !bytes.HasPrefix(line, []byte("event: ")) {
				t.Errorf("a line of the program's own: %q", line)
			}
		}
	})
}
