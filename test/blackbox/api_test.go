// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// fetch asks for a record until the execution is over; between the questions another run passes, so that nothing spins.
func (s *server) fetch(t *testing.T, id string) *execution {
	t.Helper()
	for {
		x := s.get(t, "/v1/executions/"+id).execution(t)
		if x.Status != "queued" && x.Status != "running" {
			return x
		}
		s.run(t, "pass")
	}
}

// TestRecord: what was answered can be fetched again.
func TestRecord(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	x := s.run(t, "print('hello')\nimport matplotlib.pyplot as plt\nplt.plot([1,2])\nopen('a.txt','w').write('a')\nv=[1]\n42", call{"return": []string{"v"}}, within(30)).ok(t)
	again := s.get(t, "/v1/executions/"+x.ID)
	if strings.TrimSpace(string(again.body)) != strings.TrimSpace(x.raw) {
		t.Errorf("another record:\n%.500s\n%.500s", again.body, x.raw)
	}
	for _, stream := range []string{"", "?stream=stdout"} {
		if a := s.get(t, "/v1/executions/"+x.ID+"/output"+stream); string(a.body) != "hello\n" || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain") {
			t.Errorf("%q %q", a.body, a.header)
		}
	}
	for path, want := range map[string]string{
		"/v1/executions/" + x.ID + "/output?stream=other":   "invalid_request",
		"/v1/executions/" + x.ID + "/artifacts/nothing.txt": "not_found",
		"/v1/executions/nothing":                            "not_found",
		"/v1/executions/nothing/output":                     "not_found",
		"/v1/nothing":                                       "not_found",
	} {
		a := s.get(t, path)
		if code, _ := a.problem(t); code != want {
			t.Errorf("%s: %d %s", path, a.status, code)
		}
	}
	if a := s.do(t, http.MethodDelete, "/v1/executions/"+x.ID, "", nil); a.status != http.StatusNoContent {
		t.Errorf("%d", a.status)
	}
	if a := s.get(t, "/v1/executions/"+x.ID); a.status != http.StatusNotFound {
		t.Errorf("%d after its deletion", a.status)
	}
}

// TestArtifactsOfEveryScript: by name, whole and in ranges, saved under their own names.
func TestArtifactsOfEveryScript(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	names := []string{
		"数据.csv", "資料.txt", "データ.json", "데이터.png", "بيانات.csv", "डेटा.txt", "ข้อมูล.md", "נתונים.txt", "Δεδομένα.csv", "Данные.xlsx",
		"dữ liệu.txt", "📊 2025.svg", "ünïcödé (1).html", "a;b,c.txt", "100%.txt", "quote\"s.txt", "back'tick.txt", "folder/子/图.txt", "e\u0301.txt", "x.tar.gz",
	}
	x := s.run(t, "import os\nfor n in names:\n os.makedirs(os.path.dirname(n) or '.',exist_ok=True)\n open(n,'w').write('content of '+n)", call{"inputs": call{"names": names}}).ok(t)
	if len(x.Artifacts) != len(names) {
		t.Errorf("%d artifacts of %d: %+v", len(x.Artifacts), len(names), x.Artifacts)
	}
	for _, name := range names {
		f := x.artifact(name)
		if f == nil {
			t.Errorf("%q is not listed", name)
			continue
		}
		a := s.artifact(t, x, name)
		if a.status != http.StatusOK || string(a.body) != "content of "+name {
			t.Errorf("%q: %d %.100q", name, a.status, a.body)
		}
		base := name[strings.LastIndexByte(name, '/')+1:]
		header := a.header.Get("Content-Disposition")
		kind, parameters, err := mime.ParseMediaType(header)
		if err != nil || kind != "attachment" || parameters["filename"] != base || !isASCII(header) {
			t.Errorf("%q: %s: %v", name, header, err)
		}
		if strings.HasPrefix(a.header.Get("Content-Type"), "text/html") && !strings.Contains(a.header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%q could run in a browser: %v", name, a.header)
		}
	}
	request, err := s.request(t.Context(), http.MethodGet, "/v1/executions/"+x.ID+"/artifacts/x.tar.gz", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Range", "bytes=3-6")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	part := make([]byte, 64)
	n, _ := response.Body.Read(part)
	if response.StatusCode != http.StatusPartialContent || string(part[:n]) != "tent" {
		t.Errorf("%d %q", response.StatusCode, part[:n])
	}
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r >= utf8.RuneSelf })
}

// TestDetached: the answer comes at once, the result later.
func TestDetached(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	a := s.post(t, call{"code": "open('a.txt','w').write('a')\nprint('later')", "detach": true})
	x := decode(t, a.body)
	if a.status != http.StatusAccepted || a.header.Get("Location") != "/v1/executions/"+x.ID || x.Status != "queued" && x.Status != "running" {
		t.Errorf("%d %s %s", a.status, a.header.Get("Location"), x.Status)
	}
	done := s.fetch(t, x.ID)
	if done.says(t, "later"); done.artifact("a.txt") == nil {
		t.Errorf("%+v", done.Artifacts)
	}
	if a := s.artifact(t, done, "a.txt"); string(a.body) != "a" {
		t.Errorf("%q", a.body)
	}
	// A file that was uploaded is there as long as the detached run needs it.
	kind, body := form(t, call{"code": "print(open('f').read())", "detach": true}, upload{"f", []byte("uploaded")})
	x = decode(t, s.do(t, http.MethodPost, "/v1/executions", kind, body).body)
	s.fetch(t, x.ID).says(t, "uploaded")
	// While it runs its files are not there yet, and deleting it ends it.
	mark := marked(t)
	x = decode(t, s.post(t, call{"code": "import subprocess\nsubprocess.run(['sleep','" + mark + "'])", "detach": true, "limits": call{"wall": 300}}).body)
	if code, _ := s.get(t, "/v1/executions/"+x.ID+"/artifacts/a.txt").problem(t); code != "still_running" {
		t.Errorf("got %s", code)
	}
	if a := s.do(t, http.MethodDelete, "/v1/executions/"+x.ID, "", nil); a.status != http.StatusNoContent {
		t.Errorf("%d %s", a.status, a.body)
	}
	if left := strays(t, mark); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestT89ClientLeaves: the run is cancelled with its client, or goes on when it was asked to.
func TestT89ClientLeaves(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for _, streamed := range []bool{true, false} {
		for _, stay := range []bool{false, true} {
			t.Run(fmt.Sprintf("streamed %v, stays %v", streamed, stay), func(t *testing.T) {
				t.Parallel()
				mark := marked(t)
				c := call{"code": "import subprocess\nprint('begun',flush=True)\nsubprocess.run(['sleep','" + mark + "'])", "limits": call{"wall": 3}}
				if stay {
					c["cancel_on_disconnect"] = false
				}
				if streamed {
					l := s.listen(t, "/v1/executions", c)
					l.await(t, "begun")
					l.body.Close()
					x := s.fetch(t, l.id)
					if want := map[bool]string{false: "canceled", true: "wall_timeout"}[stay]; x.Status != want || x.Stdout != "begun\n" {
						t.Errorf("%s (%s), want %s; %q", x.Status, x.Message, want, x.Stdout)
					}
					if !stay && !strings.Contains(x.Message, "client left") {
						t.Errorf("message %q", x.Message)
					}
				} else {
					ctx, leave := context.WithCancelCause(t.Context())
					go func() {
						for len(strays(t, mark)) == 0 && t.Context().Err() == nil {
							_, _ = s.ask(t.Context(), http.MethodGet, "/healthz", "", nil)
						}
						leave(errors.New("the client leaves"))
					}()
					if _, err := s.ask(ctx, http.MethodPost, "/v1/executions", "application/json", bytes.NewReader(encode(t, c))); err == nil {
						t.Error("there was an answer")
					}
				}
				for range 10_000 {
					if len(strays(t, mark)) == 0 {
						return
					}
					s.run(t, "pass")
				}
				t.Error("the program lives on")
			})
		}
	}
	s.alive(t)
}

// TestStreamAndRecordAgree: the events of a run are its record in pieces.
func TestStreamAndRecordAgree(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	all := s.events(t, "/v1/executions", call{
		"code":   "import sys\nprint('é漢🙂')\nprint('oh', file=sys.stderr)\ndisplay('shown')\nimport matplotlib\nmatplotlib.use('TkAgg')\nv={'a':1}\n[1,2]\n1/0",
		"return": []string{"v"}, "limits": call{"wall": 30},
	})
	x := decode(t, all.last().data)
	names := map[string]int{}
	for _, name := range all.names() {
		names[name]++
	}
	if all.text(t, "stdout") != x.Stdout || all.text(t, "stderr") != x.Stderr || names["display"] != len(x.Results) || names["value"] != len(x.Values) ||
		names["notice"] != len(x.Warnings) || names["error"] != 1 || x.Error == nil || x.Error.Name != "ZeroDivisionError" || names["done"] != 1 {
		t.Errorf("%v, %s", names, x.raw)
	}
	if kept := s.get(t, "/v1/executions/"+x.ID); !bytes.Equal(bytes.TrimSpace(kept.body), bytes.TrimSpace(all.last().data)) {
		t.Errorf("another record is kept")
	}
}

// TestProblemDocuments: each has a status, a stable code and a sentence.
func TestProblemDocuments(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, c := range map[string]struct {
		body   any
		status int
		code   string
		words  string
	}{
		"not JSON":         {"{", 400, "invalid_request", ""},
		"unknown field":    {call{"code": "1", "colour": 1}, 400, "invalid_request", "colour"},
		"a wrong type":     {call{"code": 1}, 400, "invalid_request", "code"},
		"unknown policy":   {call{"code": "1", "policy": "lax"}, 400, "invalid_request", "lax"},
		"unknown language": {call{"code": "1", "language": "cobol"}, 422, "unsupported", "cobol"},
		"unknown image":    {call{"code": "1", "image": "nothing"}, 400, "invalid_request", "there is no image"},
		"above a maximum":  {call{"code": "1", "limits": call{"wall": 100000}}, 422, "limit_exceeded", "10m"},
		"a bad limit":      {call{"code": "1", "limits": call{"memory": "much"}}, 400, "invalid_request", "much"},
		"zero":             {call{"code": "1", "limits": call{"wall": 0}}, 400, "invalid_request", ""},
		"NUL in code":      {call{"code": "a\x00b"}, 400, "invalid_request", "NUL"},
		"a bad input":      {call{"code": "1", "inputs": call{"a b": 1}}, 400, "invalid_request", "a b"},
		"several faults":   {call{"code": "1", "policy": "lax", "inputs": call{"a b": 1}}, 400, "invalid_request", "a b"},
		"bad base64":       {call{"code": "1", "files": []any{call{"name": "a", "content_base64": "%"}}}, 400, "invalid_request", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, ok := c.body.(string)
			if !ok {
				encoded, err := json.Marshal(c.body)
				if err != nil {
					t.Fatal(err)
				}
				body = string(encoded)
			}
			a := s.do(t, http.MethodPost, "/v1/executions", "application/json", strings.NewReader(body))
			if code, text := a.problem(t); a.status != c.status || code != c.code || !strings.Contains(text, c.words) {
				t.Errorf("%d %s", a.status, text)
			}
		})
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/executions/nothing", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "Bearer", "Bearer wrong", "Basic " + s.token, "Bearer " + s.token + "x"} {
		request.Header.Set("Authorization", token)
		response, err := http.DefaultClient.Do(request.Clone(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %d", token, response.StatusCode)
		}
	}
}
