// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"glovebox/internal/config"
	"glovebox/internal/daemon/daemontest"
)

// smallPool is the settings of a server that a test ends.
const smallPool = "prove: false\nmax_running: 16\npool: {enabled: true, min: 2, max: 4, total: 8, max_age: 1m}\n"

// busy keeps a server busy in ten ways, each of which has begun when it returns.
func (s *server) busy(t *testing.T, mark string) (detached string) {
	t.Helper()
	sleeper := fmt.Sprintf("import subprocess\nsubprocess.Popen(['sleep','%s'],start_new_session=True)\nprint('begun',flush=True)\n", mark)
	wall := call{"wall": 120, "cpus": 0.5}
	listen := func(path string, c call) {
		l := s.listen(t, path, c)
		t.Cleanup(func() { l.body.Close() })
		l.await(t, "begun")
	}
	for _, code := range []string{"while True: pass", "import time\ntime.sleep(100)", "import signal\nsignal.signal(15,signal.SIG_IGN)\nimport os\nos.wait()"} {
		listen("/v1/executions", call{"code": sleeper + code, "limits": wall})
	}
	detached = decode(t, s.post(t, call{"code": sleeper + "while True: pass", "detach": true, "limits": wall}).body).ID
	held := s.hold(t)
	listen("/v1/sandboxes/"+held+"/execute", call{"code": sleeper + "while True: print('x', flush=True)"})
	idle := s.hold(t)
	body := bytes.NewReader(encode(t, call{"code": sleeper + "import threading,time\nthreading.Thread(target=time.sleep,args=(100,)).start()"}))
	s.do(t, http.MethodPost, "/v1/sandboxes/"+idle+"/execute", "application/json", body).execution(t).ok(t)
	// Uploads: one in use, two on their way.
	kind, whole := form(t, call{"code": sleeper + "import time\ntime.sleep(100)", "limits": wall}, upload{"big.bin", bytes.Repeat([]byte("x"), 8<<20)})
	go s.lost(context.WithoutCancel(t.Context()), kind, whole)
	for range 2 {
		reader, writer := io.Pipe()
		t.Cleanup(func() { writer.Close() })
		kind, part := form(t, call{"code": "1"}, upload{"half.bin", bytes.Repeat([]byte("x"), 1<<20)})
		go s.lost(context.WithoutCancel(t.Context()), kind, reader)
		if _, err := io.CopyN(writer, part, 512<<10); err != nil {
			t.Fatal(err)
		}
	}
	// Answers that nobody streams: the sleepers tell that all have begun.
	go s.lost(context.WithoutCancel(t.Context()), "application/json", bytes.NewReader(encode(t, call{"code": sleeper + "while True: pass", "limits": wall})))
	eventually(t, time.Minute, "eight sleepers", func() []string {
		if found := strays(t, mark); len(found) < 8 {
			return append(found, fmt.Sprint(len(found), " so far"))
		}
		return nil
	})
	return detached
}

// hold makes a sandbox and leaves it to the server.
func (s *server) hold(t *testing.T) string {
	t.Helper()
	a := s.do(t, http.MethodPost, "/v1/sandboxes", "application/json", bytes.NewReader(encode(t, call{})))
	if a.status != http.StatusCreated {
		t.Fatalf("no sandbox: %d %s", a.status, a.body)
	}
	return decode(t, a.body).ID
}

// lost asks for an execution whose answer the server will not give.
func (s *server) lost(ctx context.Context, kind string, body io.Reader) {
	_, _ = s.ask(ctx, http.MethodPost, "/v1/executions", kind, body)
}

// eventually waits until look finds nothing any more; what it found last is told otherwise.
func eventually(t *testing.T, patience time.Duration, what string, look func() []string) {
	t.Helper()
	began := time.Now()
	for {
		found := look()
		took := time.Since(began)
		switch {
		case len(found) == 0:
			t.Logf("%s: after %v", what, took.Round(time.Millisecond))
			return
		case took > patience:
			t.Fatalf("%s: not after %v: %.1000v", what, patience, found)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestKilledServerLeavesNothing: a server that is killed while it works takes everything with it, by itself, within two
// seconds; and the next one on its data folder removes within ten what needs removing. What others on this machine have is
// not looked at.
func TestKilledServerLeavesNothing(t *testing.T) {
	theServer(t) // or skip
	data, _ := daemontest.Data()
	s, err := start(data, smallPool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.end() }) // it was killed
	temporary, mark := t.TempDir(), marked(t)
	before := traces(t, s)
	detached := s.busy(t, mark)
	killed := traces(t, s)
	if len(killed.processes) < len(before.processes)+8 || len(killed.namespaces) == 0 || len(killed.groups) < 8 {
		t.Fatalf("too little goes on: %d processes, %d namespaces, %d groups", len(killed.processes), len(killed.namespaces), len(killed.groups))
	}
	if err := s.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, 2*time.Second, "every process has ended by itself", func() []string { return append(killed.alive(t), strays(t, mark)...) })
	<-s.ended

	again, err := startIn(s.folder, func(c *exec.Cmd) { c.Env = append(c.Env, "TMPDIR="+temporary) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := again.end(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, 10*time.Second-time.Since(began), "nothing is left", func() []string {
		return slices.Concat(killed.alive(t), killed.groupsLeft(), killed.namespacesLeft(t), hostTraces(t, s.folder), killed.filesLeft(t))
	})
	if x := again.fetch(t, detached); x.Status != "infra" || !strings.Contains(x.Message, "run it again") {
		t.Errorf("the detached run is %s: %s", x.Status, x.Message)
	}
	again.alive(t)

	last := traces(t, again)
	if err := again.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if <-again.ended; again.err != nil {
		t.Errorf("the second server ended with %v: %s", again.err, again.log)
	}
	left := slices.Concat(last.alive(t), last.groupsLeft(), last.namespacesLeft(t), hostTraces(t, s.folder), last.filesLeft(t), dataLeft(t, s.folder), names(t, temporary))
	if len(left) > 0 {
		t.Errorf("the second server left %v", left)
	}
}

// refused waits until the server takes no more work, and returns the answer that says so.
func (s *server) refused(t *testing.T, path string, c call) answer {
	t.Helper()
	var a answer
	eventually(t, time.Minute, path+" is refused", func() []string {
		if a = s.do(t, http.MethodPost, path, "application/json", bytes.NewReader(encode(t, c))); a.status == http.StatusServiceUnavailable {
			return nil
		}
		return []string{fmt.Sprint(a.status)}
	})
	return a
}

// TestDrain: on SIGTERM what runs goes on to its end, streams get theirs, new work is refused for a while and told so, and
// then the server is gone with all it had.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := ownServer(t, smallPool+"drain: 2m\n", nil)
	held := s.hold(t)
	const code = "import time\nprint('on its way',flush=True)\ntime.sleep(5)\nprint('finished')"
	run := s.listen(t, "/v1/executions", call{"code": code})
	defer run.body.Close()
	run.await(t, "on its way")
	cell := s.listen(t, "/v1/sandboxes/"+held+"/execute", call{"code": code})
	defer cell.body.Close()
	cell.await(t, "on its way")
	all := traces(t, s)
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for path, c := range map[string]call{
		"/v1/executions": {"code": "1"}, "/v1/sandboxes": {}, "/v1/sandboxes/" + held + "/execute": {"code": "1"},
	} {
		a := s.refused(t, path, c)
		if code, _ := a.problem(t); code != "shutting_down" || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s, Retry-After %q", path, a.body, a.header.Get("Retry-After"))
		}
	}
	for name, l := range map[string]*listener{"a run": run, "a cell": cell} {
		var got events
		for e, ok := l.next(t); ok; e, ok = l.next(t) {
			got = append(got, e)
		}
		if last := got.last(); last.name != "done" || decode(t, last.data).Status != "ok" || !strings.HasSuffix(got.text(t, "stdout"), "finished\n") {
			t.Errorf("%s ended with %s %.300s", name, last.name, last.data)
		}
	}
	if <-s.ended; s.err != nil {
		t.Errorf("the server ended with %v: %s", s.err, s.log)
	}
	if left := slices.Concat(all.alive(t), all.groupsLeft(), all.namespacesLeft(t), hostTraces(t, s.folder), all.filesLeft(t), dataLeft(t, s.folder)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestSecondSignalEndsTheDrain: whoever does not want to wait says so again; what runs is canceled and told so, and nothing
// is left.
func TestSecondSignalEndsTheDrain(t *testing.T) {
	t.Parallel()
	s, mark := ownServer(t, smallPool+"drain: 1h\n", nil), marked(t)
	held := s.hold(t)
	var running []*listener
	for _, path := range []string{"/v1/executions", "/v1/sandboxes/" + held + "/execute"} {
		l := s.listen(t, path, call{"code": fmt.Sprintf("import subprocess\nprint('begun',flush=True)\nsubprocess.run(['sleep','%s'])", mark), "limits": call{"wall": 120}})
		defer l.body.Close()
		l.await(t, "begun")
		running = append(running, l)
	}
	all := traces(t, s)
	if err := s.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.refused(t, "/v1/executions", call{"code": "1"})
	time.Sleep(3 * time.Second) // what comes within a second is taken for an echo of the first
	if err := s.command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for _, l := range running {
		var last event
		for e, ok := l.next(t); ok; e, ok = l.next(t) {
			last = e
		}
		if x := decode(t, last.data); last.name != "done" || x.Status != "canceled" || !strings.Contains(x.Message, "shutting down") {
			t.Errorf("a client saw %s %.300s", last.name, last.data)
		}
	}
	if <-s.ended; s.err != nil {
		t.Errorf("the server ended with %v: %s", s.err, s.log)
	}
	if left := slices.Concat(strays(t, mark), all.alive(t), all.groupsLeft(), hostTraces(t, s.folder), dataLeft(t, s.folder)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestDeleteEndsARunningCell: the answer to the delete comes when nothing of the sandbox is left, and the cell that ran in
// it was canceled: it was called a failure of ours.
func TestDeleteEndsARunningCell(t *testing.T) {
	t.Parallel()
	s, mark := theServer(t), marked(t)
	held := s.hold(t)
	l := s.listen(t, "/v1/sandboxes/"+held+"/execute", call{"code": fmt.Sprintf("import subprocess\nprint('begun',flush=True)\nsubprocess.run(['sleep','%s'])", mark)})
	defer l.body.Close()
	l.await(t, "begun")
	if a := s.do(t, http.MethodDelete, "/v1/sandboxes/"+held, "", nil); a.status != http.StatusNoContent {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if left := strays(t, mark); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if groups := groupsOf(t, "*/"+held); len(groups) > 0 {
		t.Errorf("left: %v", groups)
	}
	var last event
	for e, ok := l.next(t); ok; e, ok = l.next(t) {
		last = e
	}
	if x := decode(t, last.data); last.name != "done" || x.Status != "canceled" || !strings.Contains(x.Message, "deleted") {
		t.Errorf("the client saw %s %.300s", last.name, last.data)
	}
}

// TestNothingIsLeftWithTheAnswer: when the answer comes the run's control groups are gone, in every hierarchy, whatever it
// left running.
func TestNothingIsLeftWithTheAnswer(t *testing.T) {
	t.Parallel()
	s, mark := theServer(t), marked(t)
	var named int
	for _, code := range []string{"", "import os\nos._exit(3)", "import os\nos.abort()", "1/0", "while True: pass"} {
		// A fresh sandbox has the name of its execution; one of the pool has its own.
		l := s.listen(t, "/v1/executions", call{
			"code":  fmt.Sprintf("import subprocess\nfor _ in range(5): subprocess.Popen(['sleep','%s'],start_new_session=True)\nprint('begun',flush=True)\n", mark) + code,
			"fresh": true, "limits": call{"wall": 3},
		})
		defer l.body.Close()
		l.await(t, "begun")
		named += len(groupsOf(t, "*/"+l.id))
		for e, ok := l.next(t); ok && e.name != "done"; e, ok = l.next(t) {
		}
		if left := slices.Concat(groupsOf(t, "*/"+l.id), strays(t, mark)); len(left) > 0 {
			t.Errorf("%q left %v", code, left)
		}
	}
	if named == 0 {
		t.Error("the groups of no run were seen")
	}
}

// runtimeFolder is where the servers of the tests have their locks, as all servers of this host.
func runtimeFolder(t *testing.T) string {
	t.Helper()
	c, err := config.Load(config.Environment{Root: os.Geteuid() == 0}, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Runtime
}

func names(t *testing.T, folder string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		found = append(found, filepath.Join(folder, entry.Name()))
	}
	return found
}
