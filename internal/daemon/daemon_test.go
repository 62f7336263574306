// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settings(t *testing.T) config.Config {
	t.Helper()
	c := config.Default(2)
	c.Data, c.Runtime, c.Addr = t.TempDir(), t.TempDir(), "127.0.0.1:0"
	return c
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// leaver is a backend with something left by an earlier process.
type leaver struct {
	*sandboxtest.Fake
	reclaimed []sandbox.ID
}

func (l *leaver) Leftovers(context.Context) iter.Seq2[sandbox.Handle, error] {
	return func(yield func(sandbox.Handle, error) bool) {
		_ = yield(sandbox.Handle{Backend: "fake", ID: "old1"}, nil) &&
			yield(sandbox.Handle{}, errors.New("unreadable")) && yield(sandbox.Handle{Backend: "fake", ID: "old2"}, nil)
	}
}

func (l *leaver) Reclaim(_ context.Context, handle sandbox.Handle) error {
	l.reclaimed = append(l.reclaimed, handle.ID)
	return nil
}

func constructor(backend sandbox.Backend, err error) []daemon.Constructor {
	return []daemon.Constructor{{Name: "fake", New: func(daemon.Settings) (sandbox.Backend, error) { return backend, err }}}
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	backend := &leaver{Fake: sandboxtest.NewFake(t.TempDir())}
	system, err := daemon.Open(settings(t), daemon.Options{Backends: constructor(backend, nil)}, discard())
	if err != nil {
		t.Fatal(err)
	}
	system.Reclaim(t.Context())
	if len(backend.reclaimed) != 2 {
		t.Errorf("reclaimed %v: one that fails must not stop the others", backend.reclaimed)
	}
	if err := system.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestOpenSaysWhatToDo: each fault is a Problem with a code and an advice.
func TestOpenSaysWhatToDo(t *testing.T) {
	t.Parallel()
	fake := constructor(sandboxtest.NewFake(t.TempDir()), nil)
	for name, test := range map[string]struct {
		change  func(*config.Config)
		options daemon.Options
		code    engine.Code
		advice  string
	}{
		"a data folder that is a file": {func(c *config.Config) { c.Data = "/dev/null/data" }, daemon.Options{Backends: fake}, engine.CodeStorage, "GLOVEBOX_DATA"},
		"a data folder in /proc":       {func(c *config.Config) { c.Data = "/proc/glovebox" }, daemon.Options{Backends: fake}, engine.CodeStorage, "GLOVEBOX_DATA"},
		"an unknown backend":           {func(c *config.Config) { c.Backend = "none" }, daemon.Options{Backends: fake}, engine.CodeBackend, "not known"},
		"a host without walls":         {func(*config.Config) {}, daemon.Options{Backends: constructor(nil, errors.New("no user namespaces"))}, engine.CodeBackend, "glovebox doctor"},
	} {
		c := settings(t)
		test.change(&c)
		_, err := daemon.Open(c, test.options, discard())
		if engine.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.advice) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestImagesAreProblemsToo(t *testing.T) {
	t.Parallel()
	system, err := daemon.Open(settings(t), daemon.Options{Backends: constructor(sandboxtest.NewFake(t.TempDir()), nil)}, discard())
	if err != nil {
		t.Fatal(err)
	}
	for image, code := range map[string]engine.Code{"python": engine.CodeImage, "../x": engine.CodeInvalid} {
		_, err := system.Engine.Run(t.Context(), engine.Request{Image: image}, nil)
		if engine.CodeOf(err) != code {
			t.Errorf("%s: %v", image, err)
		}
	}
	if err := system.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestServeRefusesABadToken(t *testing.T) {
	t.Parallel()
	c := settings(t)
	if err := os.WriteFile(filepath.Join(c.Data, "token"), []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := daemon.Serve(t.Context(), c, daemon.Options{Backends: constructor(sandboxtest.NewFake(t.TempDir()), nil)}, discard(), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "delete the file") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(daemon.SocketPath(c.Data)); !errors.Is(err, os.ErrNotExist) {
		t.Error("a socket is left")
	}
}

func TestServeSaysThatTheAddressIsTaken(t *testing.T) {
	t.Parallel()
	first, second := settings(t), settings(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	announced, served := make(chan string, 1), make(chan error, 1)
	options := func() daemon.Options {
		return daemon.Options{Backends: constructor(sandboxtest.NewFake(t.TempDir()), nil)}
	}
	one, other := options(), options()
	go func() { served <- daemon.Serve(ctx, first, one, discard(), announcer(announced)) }()
	text := <-announced
	second.Addr = strings.TrimPrefix(strings.SplitN(text, "\n", 2)[0], "glovebox listens on http://")
	err := daemon.Serve(t.Context(), second, other, discard(), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "choose another address with --addr") {
		t.Errorf("got %v", err)
	}
	cancel(errors.New("test over"))
	if err := <-served; err != nil {
		t.Error(err)
	}
}

type announcer chan<- string

func (a announcer) Write(p []byte) (int, error) {
	a <- string(p)
	return len(p), nil
}

func TestRunFolderSweepsWhatKilledRunsLeft(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	killed := filepath.Join(data, "runs", "run-killed", "x")
	if err := os.MkdirAll(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	one, removeOne, err := daemon.RunFolder(data)
	if err != nil {
		t.Fatal(err)
	}
	_, removeOther, err := daemon.RunFolder(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(one); err != nil {
		t.Errorf("a living run's folder was swept: %v", err)
	}
	if _, err := os.Stat(killed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a killed run's folder is still there: %v", err)
	}
	if err := errors.Join(removeOne(), removeOther()); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Join(data, "runs")); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestServeSweepsWhatKilledRunsLeft: a server does so too, since no other run may come.
func TestServeSweepsWhatKilledRunsLeft(t *testing.T) {
	t.Parallel()
	c := settings(t)
	killed := filepath.Join(c.Data, "runs", "run-killed", "x")
	if err := os.MkdirAll(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	c.Prove = false
	ctx, cancel := context.WithCancelCause(t.Context())
	announced, served := make(chan string, 1), make(chan error, 1)
	options := daemon.Options{Backends: constructor(sandboxtest.NewFake(t.TempDir()), nil)}
	go func() { served <- daemon.Serve(ctx, c, options, discard(), announcer(announced)) }()
	select {
	case <-announced:
	case err := <-served:
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Join(c.Data, "runs")); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	cancel(errors.New("test over"))
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestRunFoldersAtOnce(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			path, remove, err := daemon.RunFolder(data)
			if err != nil {
				t.Error(err)
				return
			}
			if err := os.WriteFile(filepath.Join(path, "x"), nil, 0o600); err != nil {
				t.Errorf("a living run's folder was swept: %v", err)
			}
			if err := remove(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}
