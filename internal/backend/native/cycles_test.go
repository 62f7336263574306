// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/backend/native"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

var (
	long = flag.Bool("long", false, "run the long forms of tests")
	seed = flag.Uint64("seed", 0, "repeat the kills of an earlier run")
)

// descendants lists the processes beneath this one, by pid, with their command lines.
func descendants(t *testing.T) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Error(err)
	}
	children, commands := map[int][]int{}, map[int]string{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		command, commandErr := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if err != nil || commandErr != nil || len(fields) < 2 {
			continue // it has ended
		}
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
		commands[pid] = fields[0] + " " + strings.ReplaceAll(string(command), "\x00", " ")
	}
	found := map[int]string{}
	for queue := children[os.Getpid()]; len(queue) > 0; queue = queue[1:] {
		found[queue[0]] = commands[queue[0]]
		queue = append(queue, children[queue[0]]...)
	}
	return found
}

func threads(t *testing.T) []os.DirEntry {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// counts are what must be the same when as many sandboxes are alive.
type counts struct {
	processes, groups, mounts, descriptors, goroutines, slots, folders int
}

func count(t *testing.T, b *native.Backend, state string) counts {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	descriptors, fdErr := os.ReadDir("/proc/self/fd")
	groups, groupErr := native.Groups(b)
	folders, folderErr := filepath.Glob(filepath.Join(state, "*", "*"))
	if err := errors.Join(err, fdErr, groupErr, folderErr); err != nil {
		t.Fatal(err)
	}
	return counts{
		processes: len(descendants(t)), groups: len(groups), mounts: strings.Count(string(mounts), state), descriptors: len(descriptors),
		goroutines: runtime.NumGoroutine(), slots: native.SlotsUsed(b), folders: len(folders),
	}
}

// above reports whether something is more than it was. Go keeps a few goroutines and descriptors of its own.
func (c counts) above(base counts) bool {
	return c.processes > base.processes || c.groups > base.groups || c.mounts > base.mounts || c.descriptors > base.descriptors ||
		c.goroutines > base.goroutines || c.slots > base.slots || c.folders > base.folders
}

// killer kills processes of the backend at random moments.
type killer struct {
	mu     sync.Mutex
	random *rand.Rand
	kills  [4]atomic.Int64
}

func (k *killer) upTo(n int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.random.IntN(n)
}

// strike kills a process of one kind, if there is one: a guest or what runs beneath it, now and then a zygote or the keeper.
func (k *killer) strike(t *testing.T) {
	kind, chance := 0, k.upTo(100)
	switch {
	case chance < 4:
		kind = 3
	case chance < 10:
		kind = 2
	case chance < 50:
		kind = 1
	}
	var victims []int
	for pid, command := range descendants(t) {
		is := 0
		switch {
		case strings.Contains(command, "guest keeper"):
			is = 3
		case strings.Contains(command, "zygote"):
			is = 2
		case strings.Contains(command, "guest init"):
			is = 1
		}
		if is == kind {
			victims = append(victims, pid)
		}
	}
	if len(victims) > 0 && unix.Kill(victims[k.upTo(len(victims))], unix.SIGKILL) == nil {
		k.kills[kind].Add(1)
	}
}

// cycle makes a sandbox, while it is killed or its caller gives up, and destroys it. It reports how far it came.
func (k *killer) cycle(t *testing.T, b sandbox.Backend) string {
	const longest = 250 * time.Millisecond // a warm sandbox is made in less
	c := class()
	if k.upTo(2) == 0 {
		c = warmClass()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	moment := time.Duration(k.upTo(int(longest)))
	struck := make(chan struct{})
	go func() {
		defer close(struck)
		time.Sleep(moment) // the moment of the kill is all that depends on it
		if k.upTo(2) == 0 {
			cancel()
		} else {
			k.strike(t)
		}
	}()
	defer func() { <-struck }()
	box, err := b.Create(ctx, newID(), c)
	if err != nil {
		return "not made"
	}
	reached := "made"
	if k.upTo(3) > 0 && box.Lease(ctx, sandbox.Lease{Limits: sandboxtest.DefaultLimits()}) == nil {
		reached = "leased"
		session, err := box.Open(ctx, sandbox.OpenSpec{Language: "python"})
		if err == nil {
			reached = "opened"
			code := sandbox.Code{Source: "print(1)", Name: "cell", Wall: 10 * time.Second, Last: k.upTo(2) == 0}
			if _, err := session.Exec(ctx, code, func(sandbox.Event) {}); err == nil {
				reached = "run"
			}
		}
	}
	var destroyers sync.WaitGroup
	for range 1 + k.upTo(3) {
		destroyers.Go(func() {
			if err := box.Destroy(context.WithoutCancel(ctx)); err != nil {
				t.Errorf("destroy: %v", err)
			}
		})
	}
	destroyers.Wait()
	return reached
}

// TestCyclesLeaveNothing: sandboxes are made and destroyed, many at once, while guests, what runs in them, zygotes and
// keepers are killed and callers give up at random moments. Afterwards everything that can be counted is as before: 100
// times, or 1,000 with -long.
func TestCyclesLeaveNothing(t *testing.T) {
	const workers = 4
	cycles := 100
	if *long {
		cycles = 1000
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed=%d", *seed)
	state := filepath.Join(t.TempDir(), "state")
	b := newBackend(t, func(c *native.Config) { c.StateDir = state })
	settle := func() { // with a keeper and a zygote of its own, and no sandbox
		t.Helper()
		box, err := b.Create(t.Context(), newID(), warmClass())
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	base, threadsBefore := count(t, b, state), len(threads(t))
	k := &killer{random: rand.New(rand.NewPCG(*seed, 0))}
	var reached sync.Map
	var group sync.WaitGroup
	var begun atomic.Int64
	for range workers {
		group.Go(func() {
			for begun.Add(1) <= int64(cycles) && !t.Failed() {
				n, _ := reached.LoadOrStore(k.cycle(t, b), new(atomic.Int64))
				n.(*atomic.Int64).Add(1) //nolint:forcetypeassert,errcheck // it is one
			}
		})
	}
	group.Wait()
	settle()
	reached.Range(func(how, n any) bool {
		t.Logf("%v: %d", how, n.(*atomic.Int64).Load()) //nolint:forcetypeassert,errcheck // it is one
		return true
	})
	t.Logf("killed: %d programs, %d guests, %d zygotes, %d keepers", k.kills[0].Load(), k.kills[1].Load(), k.kills[2].Load(), k.kills[3].Load())
	after := count(t, b, state)
	for deadline := time.Now().Add(20 * time.Second); after.above(base) && time.Now().Before(deadline); after = count(t, b, state) {
		time.Sleep(10 * time.Millisecond) // what was killed is reaped, replaced zygotes end
	}
	t.Logf("before: %+v, after: %+v", base, after)
	if after.above(base) {
		groups, _ := native.Groups(b)
		t.Errorf("something is left: %v, %v", groups, descendants(t))
	}
	// Go keeps the threads that blocking calls took (mkdir and rmdir of control groups, reads of a box's lane): one at a time
	// for each sandbox that is made or destroyed, so that their number is bounded by how many are at once.
	const perWorker, itsOwn = 2, 8
	if grown := len(threads(t)) - threadsBefore; grown > perWorker*workers+itsOwn {
		t.Errorf("%d more threads after %d cycles of %d at once", grown, cycles, workers)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left := descendants(t); len(left) > 0 {
		t.Errorf("processes outlive the backend: %v", left)
	}
}
