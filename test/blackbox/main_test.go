// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/internal/cli"
	"glovebox/internal/daemon/daemontest"
)

// asProgram makes this binary the program itself; offline says that it is alone in a network of its own.
const (
	asProgram = "GLOVEBOX_TEST_PROGRAM"
	offline   = "GLOVEBOX_TEST_OFFLINE"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		if os.Getenv(offline) != "" {
			loopbackUp()
		}
		os.Exit(cli.Main(cli.Host()))
	}
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.end(); err != nil {
			fmt.Fprintln(os.Stderr, "ending the server:", err)
			code = max(code, 1)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert,errcheck // it is one
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// server is a process that serves.
type server struct {
	url     string
	token   string
	folder  string
	command *exec.Cmd
	log     *lines
	ended   chan struct{}
	err     error // how the process ended, once it did
}

var shared struct {
	once    sync.Once
	server  *server
	missing string
	err     error
}

// theServer returns the server that all tests share, or skips.
func theServer(t *testing.T) *server {
	t.Helper()
	shared.once.Do(func() {
		var data string
		if data, shared.missing = daemontest.Data(); shared.missing == "" {
			shared.server, shared.err = start(data, "", nil)
		}
	})
	switch {
	case shared.missing != "":
		t.Skipf("skipped: no real sandboxes here: %s", shared.missing)
	case shared.err != nil:
		t.Fatal(shared.err)
	}
	return shared.server
}

// ownServer starts a server for one test that ends it, or changes its configuration.
func ownServer(t *testing.T, settings string, change func(*exec.Cmd)) *server {
	t.Helper()
	theServer(t)
	data, _ := daemontest.Data()
	s, err := start(data, settings, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.end(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var listens = regexp.MustCompile(`listens on (http://\S+)`)

// start starts a server with a data folder of its own and the images of another one.
func start(images, settings string, change func(*exec.Cmd)) (*server, error) {
	folder, err := os.MkdirTemp("", "glovebox-blackbox-*")
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		os.Chmod(folder, 0o755), // the users of sandboxes must pass to the images
		os.Symlink(filepath.Join(images, "images"), filepath.Join(folder, "images")),
		os.WriteFile(filepath.Join(folder, "config.yaml"), []byte(settings), 0o600),
	)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return startIn(folder, change)
}

// startIn starts a server in a folder that start made.
func startIn(folder string, change func(*exec.Cmd)) (*server, error) {
	s := &server{folder: folder, token: rand.Text(), log: &lines{}, ended: make(chan struct{})}
	config := filepath.Join(folder, "config.yaml")
	s.command = exec.CommandContext(context.Background(), "/proc/self/exe", "--data", s.folder, "--config", config, "serve", "--addr", "127.0.0.1:0")
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GLOVEBOX_") {
			s.command.Env = append(s.command.Env, variable)
		}
	}
	// The canary must be in no sandbox.
	s.command.Env = append(s.command.Env, asProgram+"=1", "GLOVEBOX_TOKEN="+s.token, "GLOVEBOX_LOG_LEVEL=warn", "SERVICE_API_KEY=canary-in-the-environment")
	reader, writer := io.Pipe()
	s.command.Stdout, s.command.Stderr, s.command.WaitDelay = writer, s.log, time.Second
	if change != nil {
		change(s.command)
	}
	if err := s.command.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.folder))
	}
	go func() {
		s.err = s.command.Wait()
		_ = writer.Close() // always nil
		close(s.ended)
	}()
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for said := bufio.NewScanner(reader); said.Scan(); {
			if match := listens.FindStringSubmatch(said.Text()); match != nil {
				found <- match[1]
			}
		}
	}()
	const patience = time.Minute
	select {
	case s.url = <-found:
	case <-time.After(patience):
	}
	if s.url == "" {
		return nil, fmt.Errorf("the server did not start: %w: %s", s.end(), s.log.String())
	}
	return s, nil
}

// end ends the server politely and removes its folder. It may be called twice.
func (s *server) end() error {
	_ = s.command.Process.Signal(syscall.SIGTERM) // it may be gone
	const patience = time.Minute
	var errs []error
	select {
	case <-s.ended:
	case <-time.After(patience):
		_ = s.command.Process.Kill() // it may be gone
		<-s.ended
		errs = append(errs, errors.New("the server had to be killed"))
	}
	if s.err != nil {
		errs = append(errs, fmt.Errorf("%w: %s", s.err, s.log.String()))
	}
	return errors.Join(append(errs, os.RemoveAll(s.folder))...)
}

// memory is what the server's process has in memory of its own, in bytes.
func (s *server) memory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(status)
	if match == nil {
		t.Fatalf("no RssAnon in %s", status)
	}
	kilobytes, err := strconv.ParseInt(string(match[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// growth runs work and fails when the server's own memory is greater afterwards by more than 64 MB.
func (s *server) growth(t *testing.T, work func()) {
	t.Helper()
	before := s.memory(t)
	work()
	const most = 64 << 20
	if grown := s.memory(t) - before; grown > most && !raceEnabled {
		t.Errorf("the server's memory grew by %d MB", grown>>20)
	}
}

// lines keeps the last of what a process says.
type lines struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 64 << 10
	if l.buffer.Len() > most {
		l.buffer.Reset()
	}
	return l.buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}
