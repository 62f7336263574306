// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/image/imagetest"
	"glovebox/internal/sandbox"
)

// oneImage resolves every name to the root folder of the image that the machine has.
type oneImage struct{ rootfs string }

func (i oneImage) Use(string) (string, func(), error) { return i.rootfs, func() {}, nil }

func newSystem(t *testing.T) *daemon.System {
	t.Helper()
	rootfs := imagetest.Rootfs(t)
	if os.Geteuid() != 0 {
		t.Skip("native sandboxes need root")
	}
	c := config.Default(2)
	c.Data, c.Runtime = t.TempDir(), "/run/glovebox"
	s, err := daemon.Open(c, daemon.Options{Images: oneImage{rootfs}, Pool: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, context.DeadlineExceeded)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// process is one of this test's descendants.
type process struct {
	pid, parent int
	command     string
}

func processes(t *testing.T) []process {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		command, commandErr := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || commandErr != nil {
			continue // it ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			all = append(all, process{pid, parent, strings.ReplaceAll(string(command), "\x00", " ")})
		}
	}
	return all
}

// victim finds a process of this test's keeper, or the keeper itself.
func victim(t *testing.T, kind string) (int, bool) {
	t.Helper()
	all := processes(t)
	keepers := map[int]bool{}
	for _, p := range all {
		if p.parent == os.Getpid() && strings.HasPrefix(p.command, "guest keeper") {
			keepers[p.pid] = true
			if kind == "keeper" {
				return p.pid, true
			}
		}
	}
	for _, p := range all {
		isGuest, isZygote := strings.HasPrefix(p.command, "guest init"), strings.Contains(p.command, "zygote.main")
		if keepers[p.parent] && (kind == "guest" && isGuest || kind == "zygote" && isZygote) {
			return p.pid, true
		}
	}
	return 0, false
}

// TestKillsUnderLoad kills the keeper, the zygote and guests (of the pool or at work) while requests run.
func TestKillsUnderLoad(t *testing.T) {
	const (
		workers = 4
		rounds  = 15
	)
	s := newSystem(t)
	run := func(n int) *engine.Execution {
		x, err := s.Engine.Run(t.Context(), engine.Request{Code: fmt.Sprintf("print('run', %d)", n)}, nil)
		if err != nil {
			t.Errorf("run %d was refused: %v", n, err)
		}
		return x
	}
	var good, failed, done atomic.Int64
	var load sync.WaitGroup
	for w := range workers {
		load.Go(func() {
			for i := range rounds {
				n := w*rounds + i
				x := run(n)
				done.Add(1)
				switch {
				case x == nil:
				case x.Status == engine.Status(sandbox.EndOK) && x.Stdout == fmt.Sprintf("run %d\n", n):
					good.Add(1)
				case x.Status == engine.Status(sandbox.EndInfra) && x.Message != "":
					failed.Add(1)
				default:
					t.Errorf("run %d ended with %s, %q, %q", n, x.Status, x.Stdout, x.Message)
				}
			}
		})
	}
	kills := []string{"guest", "zygote", "keeper", "guest", "zygote", "keeper"}
	for i, kind := range kills {
		for done.Load() < int64((i+1)*workers*rounds/(len(kills)+2)) && !t.Failed() {
			time.Sleep(time.Millisecond) // the load moves on by itself; only the place of the kill depends on this
		}
		if pid, found := victim(t, kind); found {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	load.Wait()
	t.Logf("%d runs were right, %d ended as our failure", good.Load(), failed.Load())
	if good.Load() < workers*rounds/2 {
		t.Errorf("only %d of %d runs were right", good.Load(), workers*rounds)
	}
	// The pool recovers: before long a request finds a ready sandbox again.
	hit := false
	for n := 0; n < 200 && !hit; n++ {
		x := run(1000 + n)
		hit = x != nil && x.Status == engine.Status(sandbox.EndOK) && x.Usage.PoolHit
	}
	if !hit {
		t.Error("no request found a ready sandbox after the kills")
	}
}
