// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/internal/backend/native"
	"glovebox/internal/cgroup"
	"glovebox/internal/image/imagetest"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// The environment of the process that plays a daemon which is killed.
const (
	playDaemon  = "GLOVEBOX_TEST_PLAY_DAEMON" // its state folder
	playRuntime = "GLOVEBOX_TEST_RUNTIME"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(playDaemon); dir != "" {
		if err := beDaemon(dir, os.Getenv(playRuntime)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// beDaemon makes sandboxes in which programs run, says so, and waits to be killed.
func beDaemon(dir, runtime string) error {
	root := os.Getenv("GLOVEBOX_TEST_ROOTFS")
	b, err := native.New(native.Config{
		StateDir: dir, RuntimeDir: runtime, Log: slog.New(slog.DiscardHandler),
		Rootfs: func(string) (string, func(), error) { return root, func() {}, nil },
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, id := range []sandbox.ID{"one", "two", "three"} {
		box, err := b.Create(ctx, id, class())
		if err != nil {
			return err
		}
		if err := box.Lease(ctx, sandbox.Lease{Limits: sandboxtest.DefaultLimits()}); err != nil {
			return err
		}
		command := sandbox.Command{Args: []string{"sh", "-c", "setsid sleep 1000 & exec sleep 1000"}, Wall: time.Hour}
		if _, err := box.Start(ctx, command); err != nil {
			return err
		}
	}
	fmt.Println("running")
	select {}
}

// TestKilledDaemonLeavesNothing: after kill -9 of the daemon every process in its boxes ends by itself, and the next
// daemon finds and removes the control groups and folders.
func TestKilledDaemonLeavesNothing(t *testing.T) {
	root := imagetest.Rootfs(t)
	state, runtime := filepath.Join(t.TempDir(), "state"), t.TempDir()
	daemon := exec.CommandContext(t.Context(), os.Args[0])
	daemon.Env = append(os.Environ(), playDaemon+"="+state, playRuntime+"="+runtime, "GLOVEBOX_TEST_ROOTFS="+root)
	output, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || line != "running\n" {
		t.Fatalf("the daemon said %q, %v", line, err)
	}
	host, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()

	// Nobody reclaims yet: the guests must end by themselves. Another daemon's groups, under other names, may live.
	b := newBackend(t, func(c *native.Config) { c.StateDir, c.RuntimeDir = state, runtime })
	var found []sandbox.Handle
	for handle, err := range b.Leftovers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("one two three", string(handle.ID)) {
			found = append(found, handle)
		}
	}
	if len(found) != 3 {
		t.Fatalf("found %v", found)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), sandboxtest.Patient(20*time.Second), errors.New("guests outlive their daemon"))
	defer cancel()
	for _, handle := range found {
		if err := host.Open(filepath.Join(handle.Owner, string(handle.ID))).WaitEmpty(ctx); err != nil {
			t.Error(err)
		}
		if err := b.Reclaim(t.Context(), handle); err != nil {
			t.Errorf("reclaim %v: %v", handle, err)
		}
	}
	for handle, err := range b.Leftovers(t.Context()) {
		if strings.Contains("one two three", string(handle.ID)) {
			t.Errorf("still there: %v %v", handle, err)
		}
	}
	if entries, err := filepath.Glob(filepath.Join(state, "*")); len(entries) > 0 || err != nil {
		t.Errorf("folders left: %v %v", entries, err)
	}
	if groups, err := host.List(""); err != nil || slices.Contains(groups, found[0].Owner) {
		t.Errorf("the group of the dead daemon is left among %v, %v", groups, err)
	}
}

// TestKilledKeeper: when the keeper dies a running cell ends as our failure, once and clearly, and the next sandbox
// comes from a new keeper.
func TestKilledKeeper(t *testing.T) {
	b := newBackend(t)
	l := sandboxtest.DefaultLimits()
	box := lease(t, b, class(), l)
	session, err := box.Open(t.Context(), sandbox.OpenSpec{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	code := sandbox.Code{Source: "print('on', flush=True)\nimport time\ntime.sleep(60)", Wall: l.Wall, Last: true}
	result, err := session.Exec(t.Context(), code, func(e sandbox.Event) {
		if e.Kind == sandbox.EventStdout {
			if err := native.KillKeeper(b); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || result.End != sandbox.EndInfra || result.Detail == "" {
		t.Errorf("end %s (%s), %v", result.End, result.Detail, err)
	}
	if r := script(t, lease(t, b, class(), l), l, "print('again')"); r.stdout.String() != "again\n" {
		t.Errorf("after the keeper's death: %s %q", r.End, r.stdout.String())
	}
}

// TestHostileSignals: no signal reaches the guest, and there is nothing else to kill.
func TestHostileSignals(t *testing.T) {
	b := newBackend(t)
	l := sandboxtest.DefaultLimits()
	r := script(t, lease(t, b, class(), l), l, `
import os, signal
refused = 0
for n in range(1, 65):
    try: os.kill(1, n)
    except PermissionError: refused += 1
print(refused)
for n in range(2, 40):
    if n != os.getpid():
        try: os.kill(n, signal.SIGKILL); print('killed', n)
        except (ProcessLookupError, PermissionError): pass`)
	if r.End != sandbox.EndOK || r.stdout.String() != "64\n" {
		t.Errorf("end %s, %q %+v", r.End, r.stdout.String(), r.fault)
	}
}

// TestStoppedFileServer: code that stops the sandbox's file server can make its own file requests fail and nothing
// else; the box still ends.
func TestStoppedFileServer(t *testing.T) {
	b := newBackend(t)
	l := limits(func(l *sandbox.Limits) { l.Wall = sandboxtest.Patient(10 * time.Second) })
	box := lease(t, b, class(), l)
	if _, err := box.Files().Put(t.Context(), "a.txt", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	r := script(t, box, l, `
import os, signal
for n in range(2, 60):
    if n != os.getpid():
        try: os.kill(n, signal.SIGSTOP); print('stopped')
        except (ProcessLookupError, PermissionError): pass`)
	if r.End != sandbox.EndOK || !strings.HasPrefix(r.stdout.String(), "stopped\n") {
		t.Fatalf("end %s, %q", r.End, r.stdout.String())
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), sandboxtest.Patient(300*time.Millisecond), os.ErrDeadlineExceeded)
	defer cancel()
	if _, err := box.Files().Put(ctx, "b.txt", strings.NewReader("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stopped file server answered: %v", err)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNoDescriptorOfTheHost: a box is started with many descriptors of the daemon's making; a program sees its own only.
func TestNoDescriptorOfTheHost(t *testing.T) {
	b := newBackend(t)
	l := sandboxtest.DefaultLimits()
	r := script(t, lease(t, b, class(), l), l, `
import os
for fd in sorted(map(int, os.listdir('/proc/self/fd'))):
    try: print(fd, os.readlink(f'/proc/self/fd/{fd}').split(':')[0])
    except FileNotFoundError: pass`)
	if got := r.stdout.String(); got != "0 /dev/null\n1 pipe\n2 pipe\n3 socket\n" {
		t.Errorf("descriptors: %q", got)
	}
}
