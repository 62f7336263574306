// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/backend/native"
	"glovebox/internal/cgroup"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// TestCloseWhileBoxesAreMade: a box in the making is gone when Close returns, and none begins another keeper afterwards,
// which nobody would end.
func TestCloseWhileBoxesAreMade(t *testing.T) {
	for n := range 8 {
		state := filepath.Join(t.TempDir(), "state")
		b := newBackend(t, func(c *native.Config) { c.StateDir = state })
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				c := class()
				if i == 0 {
					c = warmClass()
				}
				_, _ = b.Create(t.Context(), newID(), c) // it may fail or not
			})
		}
		time.Sleep(time.Duration(n) * 10 * time.Millisecond) // where in the making it is closed is all that depends on it
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if folders, err := filepath.Glob(filepath.Join(state, "*", "*")); err != nil || len(folders) > 0 {
			t.Errorf("folders are left: %v, %v", folders, err)
		}
		group.Wait()
		if left := descendants(t); len(left) > 0 {
			t.Fatalf("processes are left: %v", left)
		}
	}
}

// TestStrayInTheGroup: a process that is in the group of a box and not in its namespaces, as a fork of a zygote on its way
// may be, is ended too before Stop returns.
func TestStrayInTheGroup(t *testing.T) {
	b := newBackend(t)
	box := lease(t, b, class(), sandboxtest.DefaultLimits())
	host, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	handle := box.Handle()
	procs, err := host.Open(filepath.Join(handle.Owner, string(handle.ID), "user")).Procs(0)
	if err != nil {
		t.Fatal(err)
	}
	stray := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := stray.Start(); err != nil {
		t.Fatal(err)
	}
	for _, file := range procs {
		_, err := fmt.Fprint(file, stray.Process.Pid)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- stray.Wait() }()
	if err := box.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the stray ended with %v", err)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestUIDsOfWhatCannotBeRemoved: while something of a box is left its uids are given to no other, and asking again removes it
// once it can be.
func TestUIDsOfWhatCannotBeRemoved(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	b := newBackend(t, func(c *native.Config) { c.StateDir = state })
	box := lease(t, b, class(), sandboxtest.DefaultLimits())
	busy := filepath.Join(state, box.Handle().Owner, string(box.Handle().ID), "data", "busy")
	if err := errors.Join(os.Mkdir(busy, 0o700), unix.Mount("tmpfs", busy, "tmpfs", 0, "size=4k")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := box.Destroy(t.Context()); !errors.Is(err, unix.EBUSY) {
			t.Errorf("destroy: %v", err)
		}
	}
	if used := native.SlotsUsed(b); used != 1 {
		t.Errorf("%d blocks of uids are taken", used)
	}
	if err := unix.Unmount(busy, 0); err != nil {
		t.Fatal(err)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	if used := native.SlotsUsed(b); used != 0 {
		t.Errorf("%d blocks of uids are taken afterwards", used)
	}
}

// TestGivingUpSparesTheZygote: a caller that goes away while its sandbox is forked does not end the zygote, which all
// others need.
func TestGivingUpSparesTheZygote(t *testing.T) {
	b := newBackend(t)
	box, err := b.Create(t.Context(), newID(), warmClass())
	if err != nil {
		t.Fatal(err)
	}
	if err := native.SignalZygotes(b, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the caller went away"))
	defer cancel()
	if _, err := b.Create(ctx, newID(), warmClass()); err == nil {
		t.Fatal("a stopped zygote forked")
	}
	if err := native.SignalZygotes(b, unix.SIGCONT); err != nil {
		t.Fatalf("the zygote is gone: %v", err)
	}
	again, err := b.Create(t.Context(), newID(), warmClass())
	if err != nil {
		t.Fatal(err)
	}
	if n := native.ZygotesStarted(b); n != 1 {
		t.Errorf("%d zygotes were started", n)
	}
	for _, made := range []sandbox.Sandbox{box, again} {
		if err := made.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestFolderOfAnotherDataFolder: what a dead daemon left in its data folder is found although its uid range, and the groups
// under the name of the range, have gone to a living daemon with another data folder. It stayed for ever.
func TestFolderOfAnotherDataFolder(t *testing.T) {
	locks, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	living := newBackend(t, func(c *native.Config) { c.RuntimeDir = locks })
	box := lease(t, living, class(), sandboxtest.DefaultLimits())
	owner := box.Handle().Owner
	if err := os.MkdirAll(filepath.Join(state, owner, "dead", "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	next := newBackend(t, func(c *native.Config) { c.RuntimeDir, c.StateDir = locks, state })
	var found []sandbox.Handle
	for handle, err := range next.Leftovers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, handle)
	}
	if len(found) != 1 || found[0].ID != "dead" || found[0].Owner != owner {
		t.Fatalf("found %v", found)
	}
	if err := next.Reclaim(t.Context(), found[0]); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if r := script(t, box, sandboxtest.DefaultLimits(), "print('lives')"); r.stdout.String() != "lives\n" {
		t.Errorf("the other daemon's sandbox: %s %q", r.End, r.stdout.String())
	}
	if err := next.Reclaim(t.Context(), box.Handle()); err == nil {
		t.Error("a living daemon's sandbox was reclaimed")
	}
}

// TestEmptyGroupOfADeadDaemon: the group of a range, and its folder, are removed with the last that was in them.
func TestEmptyGroupOfADeadDaemon(t *testing.T) {
	locks, state := t.TempDir(), filepath.Join(t.TempDir(), "state")
	b := newBackend(t, func(c *native.Config) { c.RuntimeDir, c.StateDir = locks, state })
	host, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	name := native.RangeName(locks, 7)
	if _, err := host.Create(name); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(state, name), 0o755); err != nil {
		t.Fatal(err)
	}
	for handle, err := range b.Leftovers(t.Context()) {
		t.Errorf("found %v, %v", handle, err)
	}
	groups, err := host.List("")
	if err != nil || strings.Contains(strings.Join(groups, " "), name) {
		t.Errorf("groups: %v, %v", groups, err)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
