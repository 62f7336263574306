// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/internal/gateway"
	"glovebox/internal/store"
)

// kept is a store of answers.
type kept struct {
	mu      sync.Mutex
	answers map[string][2]string
}

func (k *kept) Claim(_ context.Context, tenant, name, request string, _ time.Time) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch first, known := k.answers[tenant+" "+name]; {
	case !known:
		k.answers[tenant+" "+name] = [2]string{request}
		return "", nil
	case first[0] != request:
		return "", store.ErrOtherRequest
	case first[1] == "":
		return "", store.ErrUnderWay
	default:
		return first[1], nil
	}
}

func (k *kept) Answer(_ context.Context, tenant, name, answer string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[tenant+" "+name] = [2]string{k.answers[tenant+" "+name][0], answer}
	return nil
}

func (k *kept) Unclaim(_ context.Context, tenant, name string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.answers, tenant+" "+name)
	return nil
}

func withAnswers() change {
	return change{gateway: func(c *gateway.Config) { c.Answers = &kept{answers: map[string][2]string{}} }}
}

// send posts JSON and expects a status.
func (b *bench) send(t *testing.T, path, body string, want int, change ...func(*http.Request)) answer {
	t.Helper()
	return b.ask(t, "POST", path, body, want, change...)
}

func (b *bench) ask(t *testing.T, method, path, body string, want int, change ...func(*http.Request)) answer {
	t.Helper()
	kind := ""
	if body != "" {
		kind = "application/json"
	}
	a := b.do(t, method, path, kind, body, change...)
	if a.status != want {
		t.Fatalf("%s %s %s: status %d, want %d: %.500s", method, path, body, a.status, want, a.body)
	}
	return a
}

// box makes a sandbox and returns its path.
func (b *bench) box(t *testing.T, body string) string {
	t.Helper()
	return b.send(t, "/v1/sandboxes", body, http.StatusCreated).header.Get("Location")
}

func keyed(key string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Idempotency-Key", key) }
}

// TestTermsOfSandboxes: lease and metadata are taken, shown, changed, and bounded; every fault is named at once.
func TestTermsOfSandboxes(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	path := b.box(t, `{"lease": {"idle": 60, "hard": "10m"}, "metadata": {"job": "7"}, "limits": {"memory": "64MiB"}}`)
	var held struct {
		State    string
		Metadata map[string]string
		Lease    struct{ Idle, Hard float64 }
		Created  time.Time
		Until    time.Time
		Limits   map[string]struct{ Value float64 }
	}
	read := func(a answer) {
		t.Helper()
		body := strings.NewReplacer("idle_seconds", "idle", "hard_seconds", "hard").Replace(a.body)
		if err := json.Unmarshal([]byte(body), &held); err != nil {
			t.Fatal(err)
		}
	}
	read(b.ask(t, "GET", path, "", http.StatusOK))
	if held.State != "idle" || held.Metadata["job"] != "7" || held.Lease.Idle != 60 || held.Lease.Hard != 600 || held.Limits["memory"].Value != 64<<20 {
		t.Errorf("made as %+v", held)
	}
	until := held.Until
	read(b.ask(t, "PATCH", path, `{"lease": {"hard": "2h"}, "metadata": {"job": "8", "step": "b"}}`, http.StatusOK))
	if held.Metadata["step"] != "b" || held.Lease.Idle != 60 || held.Until.Sub(until) < time.Hour {
		t.Errorf("changed to %+v", held)
	}
	read(b.ask(t, "PATCH", path, `{"lease": {"hard": "24h"}}`, http.StatusOK))
	if held.Until.Sub(held.Created) > 24*time.Hour {
		t.Errorf("a sandbox of %v lives until %v", held.Created, held.Until)
	}
	refused := b.send(t, "/v1/sandboxes", `{"lease": {"idle": "2h", "hard": 0}, "metadata": {"a\nb": "x"}, "policy": "none", "env": {"1": ""}}`, http.StatusBadRequest)
	for _, fault := range []string{"lease idle is 2h", "lease hard is", "metadata key", "policy", "environment variable"} {
		if !strings.Contains(refused.body, fault) {
			t.Errorf("%q is not named: %s", fault, refused.body)
		}
	}
	if a := b.ask(t, "PATCH", path, `{"limits": {"memory": "128MiB"}}`, http.StatusUnprocessableEntity); !strings.Contains(a.body, "changing the limits of a living sandbox") {
		t.Errorf("limits: %s", a.body)
	}
	b.send(t, "/v1/executions", `{"code": "print 1", "metadata": {"a": "b"}}`, http.StatusBadRequest)
}

// TestShapesOfBodiesAreNamedAtOnce: not the first fault of a body, all of them.
func TestShapesOfBodiesAreNamedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	a := b.send(t, "/v1/executions", `{"code": 5, "wat": 1, "limits": {"wall": [], "cups": 2}, "files": [{"name": 3}, {"nme": "x"}], "env": {"A": 1}}`, http.StatusBadRequest)
	for _, fault := range []string{`\"code\"`, `\"wat\"`, `\"limits.wall\"`, `\"limits.cups\"`, `\"files[0].name\"`, `\"files[1].nme\"`, `\"env\"`} {
		if !strings.Contains(a.body, fault) {
			t.Errorf("%s is not named: %s", fault, a.body)
		}
	}
}

// TestListOfSandboxes: by metadata and state, in pages, the newest first, and only one's own.
func TestListOfSandboxes(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	for _, job := range []string{"a", "b", "a", "b", "a"} {
		b.box(t, `{"metadata": {"job": "`+job+`", "all": "1"}}`)
	}
	list := func(query string) (jobs, next string) {
		t.Helper()
		var page struct {
			Sandboxes []struct{ Metadata map[string]string }
			Next      string
		}
		a := b.ask(t, "GET", "/v1/sandboxes?"+query, "", http.StatusOK)
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Sandboxes {
			jobs += s.Metadata["job"]
		}
		return jobs, page.Next
	}
	for query, want := range map[string]string{
		"": "ababa", "metadata.job=a": "aaa", "metadata.job=a&metadata.all=2": "", "state=idle&limit=200": "ababa", "state=busy": "", "metadata.none=": "",
	} {
		if jobs, next := list(query); jobs != want || next != "" {
			t.Errorf("%s: %q, want %q, next %q", query, jobs, want, next)
		}
	}
	all, next, pages := "", "", 0
	for ; pages == 0 || next != ""; pages++ {
		jobs, more := list("limit=2&before=" + next)
		all, next = all+jobs, more
	}
	if all != "ababa" || pages != 3 {
		t.Errorf("%d pages: %q", pages, all)
	}
	a := b.ask(t, "GET", "/v1/sandboxes?limit=0&state=odd&before=%00&x=1&limit=3", "", http.StatusBadRequest)
	if !strings.Contains(a.body, "unknown parameter x") || !strings.Contains(a.body, "given twice") {
		t.Errorf("faults: %s", a.body)
	}
	a = b.ask(t, "GET", "/v1/sandboxes?limit=201&state=odd&before=%00", "", http.StatusBadRequest)
	for _, fault := range []string{"limit is 201", "state is", "before is not"} {
		if !strings.Contains(a.body, fault) {
			t.Errorf("%q is not named: %s", fault, a.body)
		}
	}
}

// TestSandboxExpiresByItsOwnLease: as long as was asked for, and afterwards it is gone, with when and why.
func TestSandboxExpiresByItsOwnLease(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	path := b.box(t, `{"lease": {"idle": 1}}`)
	kept := b.box(t, `{"lease": {"idle": 1}}`)
	b.ask(t, "PATCH", kept, `{"lease": {"idle": 600}}`, http.StatusOK)
	deadline := time.Now().Add(time.Minute)
	for len(b.fake.Living()) > 1 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	a := b.ask(t, "GET", path, "", http.StatusGone)
	if !strings.Contains(a.body, "not used for 1s") {
		t.Errorf("gone: %s", a.body)
	}
	b.ask(t, "POST", path+"/sessions", `{}`, http.StatusGone)
	b.ask(t, "GET", path+"/files/list", "", http.StatusGone)
	b.ask(t, "GET", kept, "", http.StatusOK)
}

// TestIdempotencyKey: the same request gets the first answer and does nothing; another one, one under way, and one that was
// refused are told apart.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, withAnswers())
	first := b.send(t, "/v1/sandboxes", `{"metadata": {"a": "b"}}`, http.StatusCreated, keyed("one"))
	again := b.send(t, "/v1/sandboxes", `{"metadata": {"a": "b"}}`, http.StatusCreated, keyed("one"))
	if again.body != first.body || again.header.Get("Location") != first.header.Get("Location") || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("again: %s after %s", again.body, first.body)
	}
	if living := b.fake.Living(); len(living) != 1 {
		t.Errorf("%d sandboxes were made", len(living))
	}
	if a := b.send(t, "/v1/sandboxes", `{}`, http.StatusUnprocessableEntity, keyed("one")); !strings.Contains(a.body, "idempotency_key_reused") {
		t.Errorf("another request: %s", a.body)
	}
	b.send(t, "/v1/executions", `{"code": "print 1"}`, http.StatusUnprocessableEntity, keyed("one"))
	// A refusal frees the key.
	b.send(t, "/v1/sandboxes", `{"image": "missing"}`, http.StatusUnprocessableEntity, keyed("two"))
	b.send(t, "/v1/sandboxes", `{}`, http.StatusCreated, keyed("two"))
	// An execution, short and long: the long record is looked up.
	for _, code := range []string{"print 1", "flood 300000"} {
		first := b.send(t, "/v1/executions", `{"code": "`+code+`"}`, http.StatusOK, keyed(code))
		again := b.send(t, "/v1/executions", `{"code": "`+code+`"}`, http.StatusOK, keyed(code))
		if first.object(t)["id"] == nil || first.object(t)["id"] != again.object(t)["id"] || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %.200s and then %.200s", code, first.body, again.body)
		}
	}
	for _, key := range []string{strings.Repeat("x", 256), "\u00e9"} {
		b.send(t, "/v1/executions", `{"code": "print 1"}`, http.StatusBadRequest, keyed(key))
	}
	if a := b.send(t, "/v1/executions", `{"code": "print 1"}`, http.StatusBadRequest, keyed("s"), func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") }); !strings.Contains(a.body, "one piece") {
		t.Errorf("a stream: %s", a.body)
	}
}

// TestIdempotencyKeyUnderWay: the second of two at once is told to wait, and carries nothing out.
func TestIdempotencyKeyUnderWay(t *testing.T) {
	t.Parallel()
	b := newBench(t, withAnswers())
	var wait sync.WaitGroup
	statuses := make(chan int, 8)
	for range cap(statuses) {
		wait.Go(func() {
			statuses <- b.do(t, "POST", "/v1/sandboxes", "application/json", `{}`, keyed("k")).status
		})
	}
	wait.Wait()
	close(statuses)
	for status := range statuses {
		if status != http.StatusCreated && status != http.StatusConflict {
			t.Errorf("status %d", status)
		}
	}
	if living := b.fake.Living(); len(living) != 1 {
		t.Errorf("%d sandboxes were made", len(living))
	}
}

// TestNoAnswersKept: a server without a store refuses the key, rather than to ignore it.
func TestNoAnswersKept(t *testing.T) {
	t.Parallel()
	newBench(t, change{}).send(t, "/v1/sandboxes", `{}`, http.StatusBadRequest, keyed("k"))
}

// TestSessionsOfASandbox: several at once, in different languages, each with its own state.
func TestSessionsOfASandbox(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	path := b.box(t, `{}`)
	b.send(t, path+"/sessions", `{"name": "js", "language": "javascript", "env": {"WHO": "js"}}`, http.StatusCreated)
	b.send(t, path+"/sessions", `{"language": "bash"}`, http.StatusCreated)
	b.send(t, path+"/sessions", `{"name": "js"}`, http.StatusConflict)
	if a := b.send(t, path+"/sessions", `{"name": "a/b", "dir": "../x", "env": {"=": ""}}`, http.StatusBadRequest); strings.Count(a.body, "refused")+strings.Count(a.body, "session's name")+strings.Count(a.body, "environment variable") < 3 {
		t.Errorf("faults: %s", a.body)
	}
	if a := b.send(t, path+"/sessions", `{"language": "cobol"}`, http.StatusUnprocessableEntity); !strings.Contains(a.body, "cobol") {
		t.Errorf("a language that is not there: %s", a.body)
	}
	list := b.ask(t, "GET", path+"/sessions", "", http.StatusOK)
	for _, part := range []string{`"name":"main","language":"python"`, `"name":"js","language":"javascript"`, `"name":"session1","language":"bash"`} {
		if !strings.Contains(list.body, part) {
			t.Errorf("%s is not in %s", part, list.body)
		}
	}
	cell := func(session, code string) string {
		t.Helper()
		body, err := json.Marshal(map[string]string{"session": session, "code": code})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := b.send(t, path+"/execute", string(body), http.StatusOK).object(t)["stdout"].(string)
		return out
	}
	cell("main", "set x 1")
	cell("js", "set x 2")
	if cell("main", "show x") != "1\n" || cell("js", "show x") != "2\n" || cell("js", "env WHO") != "js\n" {
		t.Error("the sessions share their state")
	}
	b.send(t, path+"/sessions/js/restart", "", http.StatusOK)
	if got := cell("js", "show x"); got != "\n" {
		t.Errorf("after a restart: %q", got)
	}
	b.ask(t, "DELETE", path+"/sessions/js", "", http.StatusNoContent)
	b.send(t, path+"/execute", `{"session": "js", "code": "print 1"}`, http.StatusNotFound)
	b.ask(t, "DELETE", path+"/sessions/js", "", http.StatusNotFound)
	b.send(t, path+"/sessions/js/interrupt", "", http.StatusNotFound)
}

// TestInterruptAndBusySession: a session takes one cell at a time; an interrupt ends it and keeps the state.
func TestInterruptAndBusySession(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	path := b.box(t, `{}`)
	b.send(t, path+"/execute", `{"code": "set x 1"}`, http.StatusOK)
	b.send(t, path+"/sessions/main/interrupt", "", http.StatusNoContent) // nothing runs: nothing is interrupted later
	ended := make(chan answer, 1)
	go func() { ended <- b.do(t, "POST", path+"/execute", "application/json", `{"code": "spin"}`) }()
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(b.ask(t, "GET", path+"/sessions", "", http.StatusOK).body, `"busy"`) && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if a := b.ask(t, "GET", "/v1/sandboxes?state=busy", "", http.StatusOK); !strings.Contains(a.body, `"busy"`) {
		t.Errorf("busy sandboxes: %s", a.body)
	}
	b.send(t, path+"/execute", `{"code": "print 1"}`, http.StatusConflict)
	b.send(t, path+"/sessions/main/interrupt", "", http.StatusNoContent)
	if a := <-ended; !strings.Contains(a.body, "KeyboardInterrupt") {
		t.Errorf("interrupted: %s", a.body)
	}
	if out := b.send(t, path+"/execute", `{"code": "show x"}`, http.StatusOK).object(t)["stdout"]; out != "1\n" {
		t.Errorf("afterwards: %q", out)
	}
}
