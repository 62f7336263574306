// SPDX-License-Identifier: Apache-2.0

// Package zygote prepares the place of a zygote and becomes it: an interpreter that has imported the data stack once,
// never runs user code, and forks warm sessions into boxes (decision 0001).
//
// A zygote is root of its keeper's user namespace, since it must be able to enter boxes. It trusts its image: a tenant's
// own image never shares a keeper. It has no network, a read-only root, and memory that every session forked from it
// can read: nothing secret may ever get there.
package zygote

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/confine"
	"glovebox/internal/guest/packet"
)

// The descriptors a zygote starts with.
const (
	// ControlFD carries packets between the daemon and the zygote, first a Spec.
	ControlFD = 3
	// RootFD is the detached mount of the image.
	RootFD = 4
	// FirstCgroupFD is the first of the cgroup.procs files to join.
	FirstCgroupFD = 5
)

// Spec says what to become.
type Spec struct {
	Args    []string `json:"args"`
	Env     []string `json:"env"`
	Cgroups int      `json:"cgroups"`
}

// Setup is the interpreter's first packet: what all its sessions share.
type Setup struct {
	// Confine is a confine.Spec without a program.
	Confine json.RawMessage `json:"confine"`
}

// Fork asks the zygote for a session. Its descriptors are: the pidfd of the box's first process, the session's channel,
// its standard output and error, and the cgroup.procs files to join.
type Fork struct {
	ID string `json:"id"`
	// Chart asks for a session that has drawn a chart before it is ready.
	Chart bool `json:"chart,omitempty"`
}

// Report is what the zygote says: that it is ready to fork; of each session that it was forked, with its pidfd, or
// could not be; and later that it ended.
type Report struct {
	Ready   bool   `json:"ready,omitempty"`
	Threads int    `json:"threads,omitempty"`
	ID      string `json:"id,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Error   string `json:"error,omitempty"`
	Ended   bool   `json:"ended,omitempty"`
	Status  uint32 `json:"status,omitempty"`
}

// stage is where the root is put together, in the zygote's own mount namespace.
const stage = "/tmp"

// Main builds the root and becomes the zygote. It returns only on failure.
func Main() error {
	var spec Spec
	if _, more, err := packet.Receive(ControlFD, &spec); err != nil || !more {
		return fmt.Errorf("read the zygote's description: %w", cmp.Or(err, errors.New("the daemon is gone")))
	}
	if len(spec.Args) == 0 {
		return errors.New("zygote: no program given")
	}
	for fd := FirstCgroupFD; fd < FirstCgroupFD+spec.Cgroups; fd++ {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return fmt.Errorf("join the zygote's cgroup: %w", err)
		}
		unix.CloseOnExec(fd)
	}
	if err := enterRoot(); err != nil {
		return fmt.Errorf("build the zygote's root: %w", err)
	}
	if err := confine.ResetSignals(); err != nil {
		return fmt.Errorf("reset signals: %w", err)
	}
	return fmt.Errorf("execute %s: %w", spec.Args[0], unix.Exec(spec.Args[0], spec.Args, spec.Env))
}

func enterRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("tmpfs", stage, "tmpfs", quiet, "size=64k,nr_inodes=16,mode=0700"); err != nil {
		return err
	}
	root := filepath.Join(stage, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := unix.MoveMount(RootFD, "", unix.AT_FDCWD, root, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attach the image: %w", err)
	}
	unix.CloseOnExec(RootFD)
	for _, m := range []struct{ kind, path, options string }{
		{"tmpfs", "/tmp", "size=16m,nr_inodes=1024,mode=1777"},
		{"tmpfs", "/dev", "size=64k,nr_inodes=16,mode=0755"},
		{"proc", "/proc", ""},
	} {
		if err := unix.Mount(m.kind, root+m.path, m.kind, quiet|unix.MS_NOEXEC, m.options); err != nil {
			return &os.PathError{Op: "mount", Path: m.path, Err: err}
		}
	}
	for _, name := range []string{"null", "zero", "random", "urandom"} {
		target := root + "/dev/" + name
		if err := os.WriteFile(target, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, target, "", unix.MS_BIND, ""); err != nil {
			return &os.PathError{Op: "bind", Path: "/dev/" + name, Err: err}
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}
