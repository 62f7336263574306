// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"time"
)

// Steps is the steps interface, in exported form, for tests without root and network.
type Steps interface {
	Ready() error
	Base(ctx context.Context, root string) error
	Python(ctx context.Context, root string) error
	Node(ctx context.Context, root string) error
	Finish(ctx context.Context, root string) (Manifest, error)
}

type testSteps struct{ Steps }

func (t testSteps) Ready(context.Context, *loaded) error { return t.Steps.Ready() }
func (t testSteps) Base(ctx context.Context, _ *loaded, root string) error {
	return t.Steps.Base(ctx, root)
}

func (t testSteps) Node(ctx context.Context, _ *loaded, root string) error {
	return t.Steps.Node(ctx, root)
}

func (t testSteps) Python(ctx context.Context, _ *loaded, root string) error {
	return t.Steps.Python(ctx, root)
}

func (t testSteps) Finish(ctx context.Context, _ *loaded, root string) (Manifest, error) {
	return t.Steps.Finish(ctx, root)
}

// SetSteps replaces the work of a store's builds.
func (s *Store) SetSteps(steps Steps) { s.steps = testSteps{steps} }

// SetFree replaces the measure of free space.
func (s *Store) SetFree(free uint64) { s.free = func(string) (uint64, error) { return free, nil } }

// SetNow replaces the clock.
func (s *Store) SetNow(now func() time.Time) { s.now = now }

// CheckNPMLock reads a lock file of npm as a build does.
func CheckNPMLock(content []byte) error {
	_, err := parseNPMLock(content)
	return err
}

// PlaceModules is the last step of npm's part of a build.
func PlaceModules(from, dir string) error { return placeModules(from, dir) }
