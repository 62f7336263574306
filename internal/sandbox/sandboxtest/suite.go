// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/internal/sandbox"
)

// Features are what a backend claims beyond the core. What is false must be refused with an UnsupportedError.
type Features struct {
	Processes bool
	Dial      bool
	Update    bool
	Pause     bool
	Snapshot  bool
	Warm      bool
}

// Suite is what the conformance suite needs of a backend.
type Suite struct {
	// New returns the backend; it is called once for a run of the suite, and the suite closes it.
	New func(t *testing.T) sandbox.Backend
	// Class is the class of every sandbox.
	Class sandbox.Class
	// Language is opened in every session; empty is python.
	Language string
	// Limits are the lease's; the zero value is DefaultLimits.
	Limits sandbox.Limits
	// Cells are the texts to run; the zero value is PythonCells.
	Cells    Cells
	Features Features
	// Patience bounds each step of the suite; zero is a minute of a usual machine.
	Patience time.Duration
}

// DefaultLimits are small and enough for every cell of the suite.
func DefaultLimits() sandbox.Limits {
	return sandbox.Limits{
		Wall: Patient(30 * time.Second), CPUTime: Patient(time.Minute), Memory: 256 << 20, MilliCPU: 1000, Processes: 64, OpenFiles: 256,
		Disk: 64 << 20, Inodes: 4096, Tmp: 32 << 20, Output: 1 << 20,
	}
}

// Run holds a backend to the contract.
func Run(t *testing.T, suite Suite) {
	t.Helper()
	if suite.Language == "" {
		suite.Language = "python"
	}
	if suite.Limits == (sandbox.Limits{}) {
		suite.Limits = DefaultLimits()
	}
	if suite.Cells == (Cells{}) {
		suite.Cells = PythonCells()
	}
	if suite.Patience == 0 {
		suite.Patience = Patient(time.Minute)
	}
	k := &kit{Suite: suite, backend: suite.New(t)}
	for _, group := range []func(*testing.T, *kit){
		probing, lifeBegins, ends, interrupting, apart, filesAndFolders, output, refusals, lifeEnds,
	} {
		group(t, k)
	}
}

// kit is a suite at work.
type kit struct {
	Suite
	backend sandbox.Backend
}

func (k *kit) ctx(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), k.Patience, errors.New("the suite's patience is over"))
	t.Cleanup(cancel)
	return ctx
}

// NewID returns a fresh id as the engine makes them.
func NewID() sandbox.ID { return sandbox.ID("suite000" + strings.ToLower(rand.Text()[:16])) }

// create returns a sandbox that is destroyed at the test's end.
func (k *kit) create(t *testing.T) sandbox.Sandbox {
	t.Helper()
	box, err := k.backend.Create(k.ctx(t), NewID(), k.Class)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), k.Patience, errors.New("the suite's patience is over"))
		defer cancel()
		if err := box.Destroy(ctx); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return box
}

// leased returns a sandbox that is ready for Open.
func (k *kit) leased(t *testing.T, change ...func(*sandbox.Lease)) sandbox.Sandbox {
	t.Helper()
	box := k.create(t)
	lease := sandbox.Lease{Limits: k.Limits}
	for _, set := range change {
		set(&lease)
	}
	if err := box.Lease(k.ctx(t), lease); err != nil {
		t.Fatalf("Lease: %v", err)
	}
	return box
}

func (k *kit) open(t *testing.T, box sandbox.Sandbox) sandbox.Session {
	t.Helper()
	session, err := box.Open(k.ctx(t), sandbox.OpenSpec{Language: k.Language})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return session
}

// session returns a session in a sandbox of its own.
func (k *kit) session(t *testing.T) sandbox.Session {
	t.Helper()
	return k.open(t, k.leased(t))
}

// transcript is what one Exec emitted.
type transcript struct {
	mu     sync.Mutex
	events []sandbox.Event
	closed bool
	late   int
}

func (r *transcript) emit(event sandbox.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.late++
		return
	}
	event.Text = []byte(string(event.Text)) // the emitter may use its buffer again
	r.events = append(r.events, event)
}

func (r *transcript) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

func (r *transcript) text(kind sandbox.EventKind) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text strings.Builder
	for _, event := range r.events {
		if event.Kind == kind {
			text.Write(event.Text)
		}
	}
	return text.String()
}

func (r *transcript) fault() *sandbox.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, event := range r.events {
		if event.Kind == sandbox.EventError {
			return event.Fault
		}
	}
	return nil
}

// exec runs a cell and fails the test on an error of the backend.
func (k *kit) exec(t *testing.T, session sandbox.Session, code sandbox.Code) (sandbox.Result, *transcript) {
	t.Helper()
	record := &transcript{}
	if code.Wall == 0 {
		code.Wall = k.Limits.Wall
	}
	code.Name = "cell.py"
	result, err := session.Exec(k.ctx(t), code, record.emit)
	record.close()
	if err != nil {
		t.Fatalf("Exec: %v", err)
	}
	return result, record
}

// want fails unless the result has this end.
func want(t *testing.T, result sandbox.Result, record *transcript, end sandbox.End) {
	t.Helper()
	if result.End != end {
		t.Errorf("end is %q, want %q: %+v; stdout %.200q, stderr %.500q, fault %+v", result.End, end, result,
			record.text(sandbox.EventStdout), record.text(sandbox.EventStderr), record.fault())
	}
}

func input(name, content string) sandbox.InputFile {
	return sandbox.InputFile{Name: name, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

func hit(result sandbox.Result, limit sandbox.LimitName) bool {
	for _, h := range result.Hits {
		if h.Limit == limit {
			return true
		}
	}
	return false
}
