// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"glovebox/internal/sandbox"
)

// Fake is a backend without walls. Its sessions understand the small language of FakeCells; its working folders are
// real, so that what reads them is tested for real. It is safe for concurrent use.
type Fake struct {
	dir  string
	plan Plan

	mu     sync.Mutex
	boxes  map[sandbox.ID]*fakeSandbox
	calls  map[Method]int
	log    []Method
	closed bool
}

var _ sandbox.Backend = (*Fake)(nil)

// FakeName is the fake's name as a backend.
const FakeName = "fake"

// NewFake returns a Fake that keeps working folders beneath dir and fails as planned.
func NewFake(dir string, plan ...Fault) *Fake {
	return &Fake{
		dir: dir, plan: plan, boxes: make(map[sandbox.ID]*fakeSandbox), calls: make(map[Method]int),
	}
}

// Name is FakeName.
func (f *Fake) Name() string { return FakeName }

// Probe tells the truth, that there is no wall, and calls it an advice: servers are tested with it.
func (f *Fake) Probe(context.Context) (sandbox.Capabilities, error) {
	return sandbox.Capabilities{Available: true, MultiTenant: true, Layers: []sandbox.Layer{
		{Name: "pretence", Present: true, Required: true, Detail: "nothing is isolated"},
		{Name: "isolation", Advice: true, Detail: "a fake has none", Mend: "use a real backend"},
	}}, nil
}

// Create makes a working folder.
func (f *Fake) Create(ctx context.Context, id sandbox.ID, class sandbox.Class) (sandbox.Sandbox, error) {
	if !id.Valid() {
		return nil, fmt.Errorf("sandbox id %q is not valid", id)
	}
	if class.Warm != sandbox.WarmNone {
		return nil, &sandbox.UnsupportedError{Backend: FakeName, Feature: "warm sandboxes"}
	}
	kind, err := f.begin(ctx, MethodCreate)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, sandbox.ErrGone
	}
	if box := f.boxes[id]; box != nil {
		return box, nil
	}
	dir := filepath.Join(f.dir, string(id))
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "home"), 0o700), os.MkdirAll(filepath.Join(dir, "data"), 0o700)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if kind == Truncate {
		return nil, errors.Join(ErrFault, os.RemoveAll(dir))
	}
	box := newFakeSandbox(f, id, class, dir)
	f.boxes[id] = box
	return box, nil
}

// Leftovers yields nothing: a fake does not outlive its process.
func (f *Fake) Leftovers(context.Context) iter.Seq2[sandbox.Handle, error] {
	return func(func(sandbox.Handle, error) bool) {}
}

// Reclaim has nothing to do.
func (f *Fake) Reclaim(context.Context, sandbox.Handle) error { return nil }

// Close destroys every sandbox.
func (f *Fake) Close() error {
	f.mu.Lock()
	f.closed = true
	boxes := make([]*fakeSandbox, 0, len(f.boxes))
	for _, box := range f.boxes {
		boxes = append(boxes, box)
	}
	f.mu.Unlock()
	var errs []error
	for _, box := range boxes {
		errs = append(errs, box.remove())
	}
	return errors.Join(errs...)
}

// Living returns the ids of the sandboxes that were not destroyed.
func (f *Fake) Living() []sandbox.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []sandbox.ID
	for id := range f.boxes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Log returns the calls so far, in order.
func (f *Fake) Log() []Method {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}
