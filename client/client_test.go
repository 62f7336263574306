// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"glovebox/client"
	"glovebox/internal/sandbox/sandboxtest"
)

func text(content string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }
}

func read(t *testing.T, content io.ReadCloser, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	all, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := serve(t)
	if err := c.Health(t.Context()); err != nil {
		t.Error(err)
	}
	x, err := c.Run(t.Context(), client.Request{
		Code: "print hello\ncat 数据.csv\nwrite 出/made.csv 0123456789\nvalue 42\nexit 3", Files: []client.File{{Name: "数据.csv", Open: text("1,2\n")}},
		Limits: client.Limits{Wall: new(2 * time.Second)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if x.Status != client.StatusExit || x.ExitCode != 3 || x.Stdout != "hello\n1,2\n" || len(x.Results) != 1 || x.Results[0].Text() != "42" || x.Limits["wall"].Value != 2 {
		t.Errorf("%+v", x)
	}
	if len(x.Artifacts) != 1 {
		t.Fatalf("artifacts: %v", x.Artifacts)
	}
	name := x.Artifacts[0].Name
	for part, want := range map[client.Range]string{{}: "0123456789", {Offset: 7}: "789", {Length: 2}: "01", {Offset: 2, Length: 3}: "234"} {
		content, err := c.Artifact(t.Context(), x.ID, name, part)
		if got := read(t, content, err); got != want {
			t.Errorf("%v: %q, want %q", part, got, want)
		}
	}
	content, err := c.Output(t.Context(), x.ID, "stdout")
	if got := read(t, content, err); got != x.Stdout {
		t.Errorf("stdout is %q", got)
	}
	again, err := c.Get(t.Context(), x.ID)
	if diff := cmp.Diff(x, again); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if err := c.Delete(t.Context(), x.ID); err != nil {
		t.Error(err)
	}
	if _, err := c.Get(t.Context(), x.ID); !client.IsCode(err, "not_found") {
		t.Errorf("after the end: %v", err)
	}
}

// TestStream: every kind of event arrives, in order.
func TestStream(t *testing.T) {
	t.Parallel()
	c := serve(t)
	var got []client.Event
	x, err := c.Stream(t.Context(), client.Request{
		Code: "print a\nebytes \\xff\ndisplay image/png \"aGk=\"\nnotice n.x look\nset v 1\nvalue 2\nraise E x", Return: []string{"v"},
	}, func(e client.Event) error { got = append(got, e); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if got[0].ID != x.ID {
		t.Errorf("started is %q, done %q", got[0].ID, x.ID)
	}
	want := []client.Event{
		{Kind: client.KindStarted, ID: x.ID},
		{Kind: client.KindStdout, Text: []byte("a\n")},
		{Kind: client.KindStderr, Text: []byte("\xff")},
		{Kind: client.KindDisplay, Data: client.Data{"image/png": json.RawMessage(`"aGk="`)}},
		{Kind: client.KindNotice, Notice: &client.Notice{Code: "n.x", Text: "look"}},
		{Kind: client.KindResult, Data: client.Data{"text/plain": json.RawMessage(`"2"`)}},
		{Kind: client.KindError, Fault: &client.Fault{Name: "E", Value: "x", Traceback: "Traceback (most recent call last):\n  line 1\nE: x\n"}},
		{Kind: client.KindValue, Name: "v", Data: client.Data{"text/plain": json.RawMessage(`"1"`)}},
	}
	if last := len(got) - 1; got[last].Kind == client.KindNotice && got[last].Notice.Code == "invalid_utf8" {
		got = got[:last] // of the record
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLeaving: an error of the callback, and a context that ends, end the run on the server.
func TestLeaving(t *testing.T) {
	t.Parallel()
	c := serve(t)
	enough := errors.New("enough")
	for name, leave := range map[string]func(cancel context.CancelCauseFunc) error{
		"an error":  func(context.CancelCauseFunc) error { return enough },
		"a context": func(cancel context.CancelCauseFunc) error { cancel(enough); return nil },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		id := ""
		_, err := c.Stream(ctx, client.Request{Code: "spin", Limits: client.Limits{Wall: new(10 * time.Minute)}}, func(e client.Event) error {
			id = e.ID
			return leave(cancel)
		})
		if !errors.Is(err, enough) {
			t.Errorf("%s: %v", name, err)
		}
		if x, err := c.Wait(t.Context(), id); err != nil || x.Status != client.StatusCanceled {
			t.Errorf("%s: %v, %v", name, x, err)
		}
	}
}

func TestDetached(t *testing.T) {
	t.Parallel()
	c := serve(t)
	x, err := c.Start(t.Context(), client.Request{Code: "print later"})
	if err != nil || x.ID == "" {
		t.Fatal(x, err)
	}
	if x, err = c.Wait(t.Context(), x.ID); err != nil || x.Status != client.StatusOK || x.Stdout != "later\n" {
		t.Errorf("%v, %v", x, err)
	}
	x, err = c.Start(t.Context(), client.Request{Code: "spin", Limits: client.Limits{Wall: new(10 * time.Minute)}})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := c.Wait(ctx, x.ID); !errors.Is(err, enough) {
		t.Errorf("a wait that was given up: %v", err)
	}
	if x, err := c.Get(t.Context(), x.ID); err != nil || x.Status.Over() {
		t.Errorf("it did not go on: %v, %v", x, err)
	}
	if err := c.Delete(t.Context(), x.ID); err != nil {
		t.Error(err)
	}
}

func TestSandboxes(t *testing.T) {
	t.Parallel()
	boxes := serve(t).Sandboxes()
	box, err := boxes.Create(t.Context(), client.Request{Files: []client.File{{Name: "in.txt", Open: text("given")}}})
	if err != nil || len(box.Sessions) != 1 {
		t.Fatal(box, err)
	}
	if _, err := boxes.Execute(t.Context(), box.ID, client.Cell{Code: "set v 1\ncat in.txt"}); err != nil {
		t.Fatal(err)
	}
	if names, err := boxes.Fork(t.Context(), box.ID, "main", 2); !client.IsCode(err, "unsupported") { // by the fake
		t.Errorf("%v, %v", names, err)
	}
	x, err := boxes.Stream(t.Context(), box.ID, client.Cell{Code: "show v", Session: "main", Wall: new(time.Second)}, nil)
	if err != nil || x.Stdout != "1\n" || x.StateReset || x.Limits["wall"].Value != 1 {
		t.Errorf("%+v, %v", x, err)
	}
	if got, err := boxes.Get(t.Context(), box.ID); err != nil || len(got.Sessions) != 1 || got.Until.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	if err := boxes.Delete(t.Context(), box.ID); err != nil {
		t.Error(err)
	}
	if _, err := boxes.Execute(t.Context(), box.ID, client.Cell{Code: "print x"}); !client.IsCode(err, "not_found") {
		t.Errorf("after the end: %v", err)
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/sandboxes/b/fork" || string(body) != `{"session":"main","count":2}` {
			t.Errorf("%s %q, %v", r.URL, body, err)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"sessions":["fork1","fork2"]}`)
	})
	if names, err := c.Sandboxes().Fork(t.Context(), "b", "main", 2); err != nil || len(names) != 2 || names[1] != "fork2" {
		t.Errorf("%v, %v", names, err)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	c := serve(t, sandboxtest.Fault{Method: sandboxtest.MethodCreate, Call: 1, Kind: sandboxtest.Fail})
	x, err := c.Run(t.Context(), client.Request{Code: "print x"})
	if !client.IsCode(err, "infra") || x == nil || x.Status != client.StatusInfra {
		t.Errorf("a failure of the service: %v, %v", x, err)
	}
	_, err = c.Stream(t.Context(), client.Request{Code: "print x", Policy: "lax", Return: []string{"a.b"}}, nil)
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok || problem.Status != http.StatusBadRequest || problem.Code != "invalid_request" || len(problem.Faults) != 2 || !strings.Contains(err.Error(), "lax") {
		t.Errorf("%#v", err)
	}
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	_, err = connect(t, client.Options{URL: s.URL}).Get(t.Context(), "x")
	if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Code != "" || problem.Status != http.StatusNotFound || !strings.Contains(err.Error(), "no Glovebox server") {
		t.Errorf("another server: %#v", err)
	}
	missing := client.File{Name: "x", Open: func() (io.ReadCloser, error) { return nil, errors.New("no such file") }}
	if _, err := c.Run(t.Context(), client.Request{Code: "print x", Files: []client.File{missing}}); err == nil || !strings.Contains(err.Error(), "send file x: no such file") {
		t.Errorf("a file that cannot be opened: %v", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o     client.Options
		fault string
	}{
		"nothing":            {client.Options{}, "URL or a socket"},
		"both":               {client.Options{URL: "http://localhost", Socket: "/x"}, "not both"},
		"no scheme":          {client.Options{URL: "box.example:8722"}, "write it as https://HOST"},
		"no host":            {client.Options{URL: "https://"}, "write it as https://HOST"},
		"a user":             {client.Options{URL: "https://a:b@box.example"}, "leave them out"},
		"a key with a break": {client.Options{URL: "https://box.example", Key: "a\nb"}, "characters that no key has"},
		"a key in the open":  {client.Options{URL: "http://box.example", Key: key}, "readable on its way"},
		"permitted":          {client.Options{URL: "http://box.example", Key: key, Insecure: true}, ""},
		"without a key":      {client.Options{URL: "http://box.example"}, ""},
		"this machine":       {client.Options{URL: "http://[::1]:8722", Key: key}, ""},
		"https":              {client.Options{URL: "https://box.example/glovebox/", Key: key}, ""},
	} {
		_, err := client.New(c.o)
		if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRetries: only what is safe is sent again, and not more often than asked for.
func TestRetries(t *testing.T) {
	t.Parallel()
	refuse := func(status int, header string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				w.Header().Set("Retry-After", header)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, `{"code":"overloaded","detail":"later"}`)
		}
	}
	cut := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	late := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, c := range map[string]struct {
		get    bool
		handle http.HandlerFunc
		calls  int32
	}{
		"a GET that is cut":         {true, cut, 2},
		"a POST that is cut":        {false, cut, 1},
		"a GET of a gateway":        {true, refuse(502, ""), 2},
		"a POST of a gateway":       {false, refuse(502, ""), 1},
		"a POST that was refused":   {false, refuse(429, "1"), 2},
		"a POST that may have been": {false, refuse(503, ""), 1},
		"a pause beyond MaxWait":    {true, refuse(429, "31"), 1},
		"a date beyond MaxWait":     {true, refuse(429, late), 1},
		"a fault":                   {true, refuse(400, "1"), 1},
		"not there":                 {true, refuse(404, ""), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				c.handle(w, r)
			}))
			t.Cleanup(s.Close)
			// Without connections that are kept, the transport itself sends nothing twice.
			told := int32(0)
			cl := connect(t, client.Options{URL: s.URL, Retries: 1, Waiting: func(why error, pause time.Duration) {
				told++
				if why == nil || pause <= 0 {
					t.Errorf("told %v, %v", why, pause)
				}
			}, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
			var err error
			if c.get {
				_, err = cl.Get(t.Context(), "x")
			} else {
				_, err = cl.Stream(t.Context(), client.Request{Code: "x", Files: []client.File{{Name: "f", Open: text("f")}}}, nil)
			}
			if err == nil || calls.Load() != c.calls || told != c.calls-1 {
				t.Errorf("%d calls, told of %d, want %d: %v", calls.Load(), told, c.calls, err)
			}
		})
	}
}

// TestRetriesEndWithTheContext: a pause that the context does not outlive is not begun.
func TestRetriesEndWithTheContext(t *testing.T) {
	t.Parallel()
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "20")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"code":"overloaded","detail":"later"}`)
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("waited for nothing"))
	defer cancel()
	_, err := c.Get(ctx, "x")
	problem, ok := errors.AsType[*client.Problem](err)
	if !ok || problem.RetryAfter != 20*time.Second || ctx.Err() != nil {
		t.Errorf("%#v", err)
	}
}

// TestARetriedPOSTIsWhole: the second attempt has the files again.
func TestARetriedPOSTIsWhole(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !strings.Contains(string(body), "the content") {
			t.Errorf("body %q, %v", body, err)
		}
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"id":"x","status":"ok"}`)
	})
	x, err := c.Run(t.Context(), client.Request{Code: "x", Files: []client.File{{Name: "f", Open: text("the content")}}})
	if err != nil || x.ID != "x" {
		t.Errorf("%v, %v", x, err)
	}
}

// endless writes for as long as somebody reads.
func endless(w io.Writer, before, piece string) {
	_, err := io.WriteString(w, before)
	piece = strings.Repeat(piece, 1<<16)
	for err == nil {
		_, err = io.WriteString(w, piece)
	}
}

// TestHostileServers: whatever answers, the client ends with an error and has read no more than its limits.
func TestHostileServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   string
	}{
		"an endless record": {func(w http.ResponseWriter, _ *http.Request) { endless(w, `{"stdout":"`, "x") }, "larger than the limit"},
		"an endless event":  {func(w http.ResponseWriter, _ *http.Request) { endless(w, "data: ", "x") }, "larger than the limit"},
		"an endless problem": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			endless(w, `{"detail":"`, "x")
		}, "400"},
		"a wrong type": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "event: done\ndata: {\"exit_code\":\"x\"}\n\n")
		}, "cannot be read"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/executions" {
				t.Errorf("the client followed to %s", r.URL)
			}
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "307"},
		"a stream that ends": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "event: started\ndata: {\"id\":\"x\"}\n\n")
		}, "ended before"},
		"a problem in a stream": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "event: problem\ndata: {\"status\":503,\"code\":\"shutting_down\",\"detail\":\"soon\"}\n\n")
		}, "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			cl := answering(t, c.handle)
			cl.LimitForTest(1 << 20)
			var err error
			if strings.Contains(name, "record") {
				_, err = cl.Run(t.Context(), client.Request{Code: "x"})
			} else {
				_, err = cl.Stream(t.Context(), client.Request{Code: "x"}, nil)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.300v", err)
			}
		})
	}
}

func TestWrongKey(t *testing.T) {
	t.Parallel()
	url, end, err := server()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	_, err = connect(t, client.Options{URL: url, Key: "wrong"}).Get(t.Context(), "x")
	if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Status != http.StatusUnauthorized || problem.Code != "unauthorized" {
		t.Errorf("%#v", err)
	}
}

// TestCertificatesAreChecked: https:// is trusted by the system's roots, or by those of the client that was given.
func TestCertificatesAreChecked(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"x"}`) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(s.Close)
	if _, err := connect(t, client.Options{URL: s.URL, Key: key, Retries: -1}).Get(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a stranger's certificate: %v", err)
	}
	if x, err := connect(t, client.Options{URL: s.URL, Key: key, HTTPClient: s.Client()}).Get(t.Context(), "x"); err != nil || x.ID != "x" {
		t.Errorf("a known one: %v, %v", x, err)
	}
}
