// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/internal/cli"
	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("os/signal.loop"))
}

type anyImage struct{}

func (anyImage) Use(name string) (string, func(), error) { return name, func() {}, nil }

// recorder is an output that tells when a text has come.
type recorder struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	until  string
	seen   chan struct{}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffer.Write(p)
	if r.until != "" && strings.Contains(r.buffer.String(), r.until) {
		r.until = ""
		close(r.seen)
	}
	return len(p), nil
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buffer.String()
}

// bench is a call of the program over the fake backend.
type bench struct {
	cli.Process
	out, err *recorder
	data     string
	fake     string
}

func newBench(t *testing.T, script string, args ...string) *bench {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.fake")
	if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	b := &bench{out: &recorder{}, err: &recorder{}, data: data, fake: filepath.Join(data, "fake")}
	b.Process = cli.Process{
		Args: append([]string{"run"}, append(args, path)...), Stdin: strings.NewReader(""), Stdout: b.out, Stderr: b.err,
		Environment: config.Environment{Vars: []string{"GLOVEBOX_DATA=" + data, "GLOVEBOX_RUNTIME=" + data}, Processors: 2},
		Daemon: daemon.Options{Images: anyImage{}, Backends: []daemon.Constructor{
			{Name: "fake", New: func(daemon.Settings) (sandbox.Backend, error) { return sandboxtest.NewFake(b.fake), nil }},
		}},
	}
	return b
}

// TestTerminal: what a program prints cannot steer a person's terminal; a pipe gets the very bytes.
func TestTerminal(t *testing.T) {
	t.Parallel()
	const script = `bytes \x1b]0;title\x07red\x1b[31m\xe6\xbc` + "\n" + `bytes \xa2\r\n\ttab \xc2\x9b \xff \xe2\x80\xae` + "\n" + `ebytes \x1b[2J`
	for _, terminal := range []bool{true, false} {
		b := newBench(t, script)
		b.StdoutTerminal, b.StderrTerminal = terminal, terminal
		if code := cli.Main(b.Process); code != 0 {
			t.Fatalf("exit code %d: %s", code, b.err)
		}
		out, err := "\x1b]0;title\x07red\x1b[31m漢\r\n\ttab \u009b \xff \u202e", "\x1b[2J"
		if terminal {
			out, err = "␛]0;title␇red␛[31m漢␍\n\ttab <U+009B> \uFFFD <U+202E>", "␛[2J"
		}
		if b.out.String() != out || !strings.HasPrefix(b.err.String(), err) {
			t.Errorf("terminal %v: stdout %q, stderr %q", terminal, b.out, b.err)
		}
	}
}

// TestSignal: the first one cancels and cleans up.
func TestSignal(t *testing.T) { // not parallel: signals are the process's
	b := newBench(t, "print begun\nspin")
	b.Signals = []os.Signal{syscall.SIGUSR1}
	b.out.until, b.out.seen = "begun", make(chan struct{})
	sent := make(chan error)
	go func() {
		<-b.out.seen
		sent <- syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	}()
	code := cli.Main(b.Process)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if code != 130 || !strings.Contains(b.err.String(), "canceled") {
		t.Errorf("exit code %d, stderr %q", code, b.err)
	}
	if entries, err := os.ReadDir(b.fake); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestJSONIsOneObject: whatever happens, stdout holds one object.
func TestJSONIsOneObject(t *testing.T) {
	t.Parallel()
	for script, args := range map[string][]string{
		"print hello\nvalue 1": nil, "raise E x": nil, "oom": nil, `bytes \xff`: nil, "print x": {"--memory", "1PB"},
		"print y": {"--memory", "64GiB"}, "print z": {"--policy", "lax"},
	} {
		b := newBench(t, script, append(args, "--json")...)
		code := cli.Main(b.Process)
		var object map[string]any
		decoder := json.NewDecoder(strings.NewReader(b.out.String()))
		if err := decoder.Decode(&object); err != nil || decoder.More() {
			t.Errorf("%q (exit %d): %v: %q", script, code, err, b.out)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestBrokenPipe: a reader that leaves is not a success.
func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	b := newBench(t, "print a\nprint b")
	b.Stdout = brokenPipe{}
	if code := cli.Main(b.Process); code != 70 || !strings.Contains(b.err.String(), "print the output") {
		t.Errorf("exit code %d, stderr %q", code, b.err)
	}
}

// TestServerThatDies: the command does not hang, and says what to do.
func TestServerThatDies(t *testing.T) {
	t.Parallel()
	b := newBench(t, "print begun\nspin")
	ctx, cancel := context.WithCancelCause(t.Context())
	loaded, err := config.Load(b.Environment, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	loaded.Addr, loaded.Drain, loaded.Prove = "127.0.0.1:0", config.Duration(time.Millisecond), false
	announced := &recorder{until: "token", seen: make(chan struct{})}
	served := make(chan error)
	go func() { served <- daemon.Serve(ctx, loaded, b.Daemon, discard(), announced) }()
	<-announced.seen
	b.out.until, b.out.seen = "begun", make(chan struct{})
	go func() {
		<-b.out.seen
		cancel(errors.New("the test ends the server"))
	}()
	if code := cli.Main(b.Process); code != 130 || !strings.Contains(b.err.String(), "shutting down") {
		t.Errorf("exit code %d, stderr %q", code, b.err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
