// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/internal/cgroup"
)

// play tells a process of this test what to be: a daemon, or the first process of a container, which becomes one.
const play = "GLOVEBOX_TEST_PLAY"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(play) {
	case "container":
		err = enterContainer()
	case "daemon":
		err = beDaemon()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// enterContainer gives this process a cgroup namespace and a mount of it, as containers have, and becomes a daemon in it.
func enterContainer() error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWCGROUP | unix.CLONE_NEWNS); err != nil {
		return err
	}
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH),
		unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""),
	)
	if err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args[:1], []string{play + "=daemon"})
}

// beDaemon makes a group with limits and waits until its input ends.
func beDaemon() error {
	host, err := cgroup.Discover()
	if err != nil {
		return err
	}
	group, err := host.Create("owner/box")
	if err != nil {
		return err
	}
	if err := group.Set(cgroup.Limits{Memory: 64 << 20, MilliCPU: 500, PIDs: 10}); err != nil {
		return err
	}
	fmt.Println("made")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return errors.Join(group.Remove(), host.Open("").Remove())
}

// newUnit makes a group of version 2 as a service manager does, with controllers. It skips where they are not to be had.
func newUnit(t *testing.T) string {
	t.Helper()
	const root = "/sys/fs/cgroup"
	if os.Geteuid() != 0 {
		t.Skip("making groups needs root")
	}
	controllers, err := os.ReadFile(root + "/cgroup.controllers")
	if err != nil || !strings.Contains(string(controllers), "memory") {
		t.Skip("this host has no pure cgroup version 2: make test-vm has")
	}
	if err := os.WriteFile(root+"/cgroup.subtree_control", []byte("+memory +cpu +pids"), 0); err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(root, fmt.Sprintf("glovebox-test-%d.service", os.Getpid()))
	if err := os.Mkdir(unit, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, dir := range []string{filepath.Join(unit, cgroup.Aside), unit} {
			if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	return unit
}

// startIn runs role in the group, waits until it has made its own group, and checks where both are.
func startIn(t *testing.T, unit, role string) {
	t.Helper()
	dir, err := os.Open(unit)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = []string{play + "=" + role}
	process.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	input, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 1000)
	n, _ := output.Read(said)
	if string(said[:n]) != "made\n" {
		t.Errorf("the daemon said %q", said[:n])
	}
	limit, err := os.ReadFile(filepath.Join(unit, cgroup.Parent, "owner/box/memory.max"))
	if err != nil || string(limit) != "67108864\n" {
		t.Errorf("the box's limit is %q: %v", limit, err)
	}
	membership, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", process.Process.Pid))
	if want := "/" + filepath.Base(unit) + "/" + cgroup.Aside + "\n"; err != nil || !strings.HasSuffix(string(membership), want) {
		t.Errorf("the daemon is in %q, want %q: %v", membership, want, err)
	}
	if err := errors.Join(input.Close(), process.Wait()); err != nil {
		t.Error(err)
	}
}

// TestDelegatedUnit: in a unit that systemd delegates groups are made beneath the unit, where its limits hold and its end
// reaches them, and the daemon steps aside into a leaf. They were made at the host's root.
func TestDelegatedUnit(t *testing.T) {
	unit := newUnit(t)
	if err := unix.Setxattr(unit, "trusted.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	startIn(t, unit, "daemon")
}

// TestRootOfAContainer: the root of a cgroup namespace holds the daemon itself, which steps aside. It was EBUSY.
func TestRootOfAContainer(t *testing.T) { startIn(t, newUnit(t), "container") }
