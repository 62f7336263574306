// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/sandbox/sandboxtest"
)

// anyImage takes every name.
type anyImage struct{}

func (anyImage) Use(name string) (string, func(), error) { return name, func() {}, nil }

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// serving is a server of this process.
type serving struct {
	url, token string
	log        *journal
	level      *slog.LevelVar
	reload     chan os.Signal
	next       func() (config.Config, error)
	end        func(error)
	ended      chan error
	client     *http.Client
}

func serve(t *testing.T, change func(*config.Config)) *serving {
	t.Helper()
	c := settings(t)
	c.Prove, c.Token, c.Pool.Enabled = false, "a-token-for-tests-only", false
	if change != nil {
		change(&c)
	}
	s := &serving{
		token: "a-token-for-tests-only", log: &journal{}, level: &slog.LevelVar{}, reload: make(chan os.Signal, 1), ended: make(chan error, 1),
		client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute},
	}
	s.next = func() (config.Config, error) { return c, nil }
	ctx, cancel := context.WithCancelCause(t.Context())
	s.end = cancel
	announced := make(chan string, 1)
	options := daemon.Options{
		Backends: constructor(sandboxtest.NewFake(t.TempDir()), nil), Images: anyImage{}, Level: s.level, Reload: s.reload,
		Reread: func() (config.Config, error) { return s.next() },
	}
	log := slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: s.level}))
	go func() { s.ended <- daemon.Serve(ctx, c, options, log, announcer(announced)) }()
	select {
	case text := <-announced:
		s.url = strings.TrimPrefix(strings.SplitN(text, "\n", 2)[0], "glovebox listens on ")
	case err := <-s.ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel(errors.New("test over"))
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		s.client.CloseIdleConnections()
	})
	return s
}

func (s *serving) ask(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	request.Header.Set("Content-Type", "application/json")
	if host, found := strings.CutPrefix(path, "/?host="); found {
		request.Host = host
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func until(t *testing.T, what string, met func() bool) {
	t.Helper()
	const patience = time.Minute
	for began := time.Now(); !met(); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("in vain: " + what)
		}
	}
}

// TestDrainIsNotReady: while what runs goes on, readyz says that no new work is taken, and healthz that the process lives.
func TestDrainIsNotReady(t *testing.T) {
	t.Parallel()
	s := serve(t, func(c *config.Config) { c.Drain = config.Duration(time.Hour) })
	if status, answer := s.ask(t, "GET", "/readyz", ""); status != http.StatusOK || !strings.Contains(answer, `"database":"ok"`) {
		t.Errorf("before: %d %s", status, answer)
	}
	status, answer := s.ask(t, "POST", "/v1/executions", `{"code": "spin", "detach": true}`)
	var x struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &x); err != nil || status != http.StatusAccepted {
		t.Fatal(status, answer, err)
	}
	s.end(errors.New("drain"))
	until(t, "readyz says no", func() bool {
		status, answer := s.ask(t, "GET", "/readyz", "")
		return status == http.StatusServiceUnavailable && strings.Contains(answer, `"drain":"failed"`)
	})
	if status, _ := s.ask(t, "GET", "/healthz", ""); status != http.StatusOK {
		t.Errorf("healthz: %d", status)
	}
	if status, _ := s.ask(t, "POST", "/v1/executions", `{"code": "print x"}`); status != http.StatusServiceUnavailable {
		t.Errorf("new work: %d", status)
	}
	if status, _ := s.ask(t, "DELETE", "/v1/executions/"+x.ID, ""); status != http.StatusNoContent {
		t.Errorf("delete: %d", status)
	}
}

// TestConfigurationIsReadAgain: what can change does, at once; what cannot is named; a wrong file changes nothing and says so.
func TestConfigurationIsReadAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	before, err := s.next()
	if err != nil {
		t.Fatal(err)
	}
	long := `{"code": "print x", "limits": {"wall": "5m"}}`
	if status, answer := s.ask(t, "POST", "/v1/executions", long); status != http.StatusOK {
		t.Fatal(status, answer)
	}
	if status, _ := s.ask(t, "GET", "/?host=new.example", ""); status != http.StatusForbidden {
		t.Errorf("an unknown host: %d", status)
	}
	after := before
	after.Maxima.Wall, after.Hosts, after.Log.Level, after.Addr = config.Duration(time.Minute), []string{"new.example"}, "debug", "127.0.0.1:1"
	after.Tenants = map[string]config.Tenant{"default": {Sandboxes: 1}}
	s.next = func() (config.Config, error) { return after, nil }
	s.reload <- os.Interrupt
	until(t, "the log says so", func() bool { return strings.Contains(s.log.String(), `"need_a_restart":["addr"]`) })
	if status, answer := s.ask(t, "POST", "/v1/executions", long); status != http.StatusUnprocessableEntity {
		t.Errorf("above the new maximum: %d %s", status, answer)
	}
	if status, _ := s.ask(t, "GET", "/?host=new.example", ""); status != http.StatusNotFound {
		t.Errorf("a host that is known now: %d", status)
	}
	if s.level.Level() != slog.LevelDebug {
		t.Errorf("the level is %v", s.level.Level())
	}
	if status, _ := s.ask(t, "POST", "/v1/sandboxes", `{}`); status != http.StatusCreated {
		t.Errorf("the first sandbox: %d", status)
	}
	if status, answer := s.ask(t, "POST", "/v1/sandboxes", `{}`); status != http.StatusTooManyRequests || !strings.Contains(answer, "quota_exceeded") {
		t.Errorf("the second: %d %s", status, answer)
	}
	s.next = func() (config.Config, error) { return config.Config{}, errors.New("max_running is -1") }
	s.reload <- os.Interrupt
	until(t, "the log says that it is wrong", func() bool {
		return strings.Contains(s.log.String(), "the old one stays in force") && strings.Contains(s.log.String(), "max_running is -1")
	})
	if status, _ := s.ask(t, "POST", "/v1/executions", `{"code": "print x"}`); status != http.StatusOK {
		t.Errorf("after a wrong file: %d", status)
	}
}

// TestUsageIsCounted: what ran is in the tenant's usage and in the metrics when its answer is there.
func TestUsageIsCounted(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for range 3 {
		if status, answer := s.ask(t, "POST", "/v1/executions", `{"code": "print x"}`); status != http.StatusOK {
			t.Fatal(status, answer)
		}
	}
	if status, answer := s.ask(t, "GET", "/v1/usage", ""); status != http.StatusOK || !strings.Contains(answer, `"runs":3`) || !strings.Contains(answer, `"stored_bytes":6`) {
		t.Errorf("usage: %d %s", status, answer)
	}
	status, answer := s.ask(t, "GET", "/metrics", "")
	if status != http.StatusOK || !strings.Contains(answer, `glovebox_executions_total{backend="fake",end="ok"} 3`) ||
		!strings.Contains(answer, `glovebox_http_requests_total{method="POST",route="/v1/executions",status="2xx"} 3`) {
		t.Errorf("metrics: %d %s", status, answer)
	}
}

// TestLogsHoldNoData: what a caller sends and what their code prints is in no line of the log, however the request ends.
func TestLogsHoldNoData(t *testing.T) {
	t.Parallel()
	const planted = "xyzzyplanted"
	s := serve(t, func(c *config.Config) { c.MaxRunning = 2 })
	quote := func(code string) string {
		text, err := json.Marshal(code)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, code := range []string{
		"print " + planted, "eprint " + planted, "write " + planted + ".txt " + planted, "raise ValueError " + planted, planted, "value " + planted, "exit 3",
	} {
		s.ask(t, "POST", "/v1/executions", `{"code": `+quote(code)+`, "name": "`+planted+`.py", "env": {"A": "`+planted+`"}, "inputs": {"`+planted+`": "`+planted+`"}, "return": ["`+planted+`"]}`)
	}
	for _, body := range []string{
		`{"code": "` + planted, `{"` + planted + `": 1}`, `{"code": "print x", "image": "` + planted + `"}`, `{"code": "print x", "policy": "` + planted + `"}`,
		`{"code": "print x", "language": "` + planted + `"}`, `{"code": "print x", "backend": "` + planted + `"}`,
	} {
		s.ask(t, "POST", "/v1/executions", body)
		s.ask(t, "POST", "/v1/sandboxes", body)
	}
	s.ask(t, "GET", "/v1/executions/"+planted+"/artifacts/"+planted, "")
	s.ask(t, "GET", "/"+planted+"?"+planted, "")
	_, answer := s.ask(t, "POST", "/v1/sandboxes", `{}`)
	var held struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &held); err != nil {
		t.Fatal(err)
	}
	s.ask(t, "POST", "/v1/sandboxes/"+held.ID+"/execute", `{"code": "print `+planted+`", "session": "`+planted+`"}`)
	s.ask(t, "POST", "/v1/sandboxes/"+held.ID+"/execute", `{"code": "raise E `+planted+`"}`)
	s.reload <- os.Interrupt // a line that must be there
	until(t, "a line", func() bool { return strings.Contains(s.log.String(), "read again") })
	if text := s.log.String(); strings.Contains(text, planted) {
		t.Errorf("the log holds what a caller sent:\n%s", text)
	}
}
