// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"glovebox/internal/sandbox"
)

type fakeSandbox struct {
	sandbox.Unsupported
	backend *Fake
	id      sandbox.ID
	class   sandbox.Class
	dir     string
	// stop is closed when the sandbox's processes shall end.
	stop     chan struct{}
	stopOnce sync.Once
	running  sync.WaitGroup

	mu     sync.Mutex
	leased bool
	gone   bool
	lease  sandbox.Lease
	start  time.Time
}

func newFakeSandbox(f *Fake, id sandbox.ID, class sandbox.Class, dir string) *fakeSandbox {
	return &fakeSandbox{
		Unsupported: sandbox.Unsupported{Backend: FakeName}, backend: f, id: id, class: class, dir: dir,
		stop: make(chan struct{}), start: time.Now(),
	}
}

func (s *fakeSandbox) Handle() sandbox.Handle { return sandbox.Handle{Backend: FakeName, ID: s.id} }

func (s *fakeSandbox) Lease(ctx context.Context, lease sandbox.Lease) error {
	kind, err := s.backend.begin(ctx, MethodLease)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone:
		return sandbox.ErrGone
	case s.leased:
		return sandbox.ErrLeased
	}
	if err := lease.Limits.Validate(); err != nil {
		return err
	}
	for _, file := range lease.Files {
		if err := s.input(file); err != nil {
			return err
		}
		if kind == Truncate {
			return ErrFault
		}
	}
	if kind == Truncate {
		return ErrFault
	}
	s.leased, s.lease = true, lease
	return nil
}

func (s *fakeSandbox) input(file sandbox.InputFile) error {
	if err := sandbox.ValidFileName(file.Name); err != nil {
		return err
	}
	source, err := file.Open()
	if err != nil {
		return err
	}
	defer source.Close()
	path := filepath.Join(s.dir, "data", file.Name)
	target, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close(), os.Symlink(path, filepath.Join(s.dir, "home", file.Name)))
}

func (s *fakeSandbox) Open(ctx context.Context, spec sandbox.OpenSpec) (sandbox.Session, error) {
	kind, err := s.backend.begin(ctx, MethodOpen)
	if err != nil {
		return nil, err
	}
	if kind == Truncate {
		return nil, ErrFault
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone || s.stopped():
		return nil, sandbox.ErrGone
	case !s.leased:
		return nil, sandbox.ErrLeased
	case !slices.Contains([]string{"python", "javascript", "bash", FakeName}, spec.Language):
		return nil, &sandbox.UnsupportedError{Backend: FakeName, Feature: "language " + spec.Language}
	}
	env := map[string]string{}
	for _, layer := range []map[string]string{s.lease.Env, spec.Env} {
		maps.Copy(env, layer)
	}
	return &fakeSession{box: s, env: env, vars: map[string]string{}, interrupts: make(chan struct{}, 1)}, nil
}

func (s *fakeSandbox) Files() sandbox.Files { return &fakeFiles{box: s} }

func (s *fakeSandbox) Usage(ctx context.Context) (sandbox.Usage, error) {
	kind, err := s.backend.begin(ctx, MethodUsage)
	if err != nil {
		return sandbox.Usage{}, err
	}
	if kind == Lie {
		return lyingUsage(), nil
	}
	if kind == Truncate {
		return sandbox.Usage{}, ErrFault
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return sandbox.Usage{}, sandbox.ErrGone
	}
	return sandbox.Usage{Wall: time.Since(s.start), CPU: time.Millisecond, MemoryPeak: 8 << 20}, nil
}

func (s *fakeSandbox) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

func (s *fakeSandbox) Stop(ctx context.Context) error {
	kind, err := s.backend.begin(ctx, MethodStop)
	if err != nil {
		return err
	}
	s.end()
	if kind == Truncate {
		return ErrFault
	}
	return nil
}

// end stops every running cell and waits for it.
func (s *fakeSandbox) end() {
	s.stopOnce.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.stop)
	})
	s.running.Wait()
}

func (s *fakeSandbox) Workspace(ctx context.Context) (*os.File, error) {
	kind, err := s.backend.begin(ctx, MethodWorkspace)
	if err != nil {
		return nil, err
	}
	if kind == Truncate {
		return nil, ErrFault
	}
	if kind == Lie {
		return os.Open(os.DevNull)
	}
	if !s.stopped() {
		return nil, fmt.Errorf("workspace of %s: stop the sandbox first", s.id)
	}
	return os.Open(filepath.Join(s.dir, "home"))
}

func (s *fakeSandbox) Destroy(ctx context.Context) error {
	kind, err := s.backend.begin(ctx, MethodDestroy)
	if err != nil {
		return err
	}
	if kind == Truncate {
		s.end()
		return ErrFault
	}
	return s.remove()
}

func (s *fakeSandbox) remove() error {
	s.end()
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.backend.mu.Lock()
	delete(s.backend.boxes, s.id)
	s.backend.mu.Unlock()
	return os.RemoveAll(s.dir)
}
