// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/layer"
	"glovebox/internal/guest/layout"
	"glovebox/internal/guest/packet"
	"glovebox/internal/guest/reaper"
)

// The arguments that give the guest binary its role.
const (
	// Command makes it a keeper.
	Command = "keeper"
	// InitCommand makes it the first process of a box.
	InitCommand = "init"
	// ZygoteCommand makes it prepare a root and become a zygote.
	ZygoteCommand = "zygote"
	// ProbeCommand makes it end at once: it shows that a namespace can be had.
	ProbeCommand = "probe"
	// ProbeProcCommand makes it mount a /proc and end.
	ProbeProcCommand = "probe-proc"
)

// Main serves the daemon until its socket ends. The keeper then ends, and every box with it.
func Main() error {
	// Whatever stray descriptors the daemon was started with end here.
	if err := unix.CloseRange(ControlFD+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	unix.CloseOnExec(ControlFD)
	if err := ownProc(); err != nil {
		return err
	}
	k := &keeper{}
	k.reaper = reaper.New(func(pid int, status unix.WaitStatus) {
		k.report(Report{Orphan: pid, Status: uint32(status)})
	})
	for {
		var request Request
		files, more, err := packet.Receive(ControlFD, &request)
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
		k.start(request, files)
		for _, file := range files {
			_ = file.Close() // the process has its own
		}
	}
}

// ownProc replaces the host's /proc, in this mount namespace, by that of the keeper's pid namespace: the numbers it has
// for its children are not the host's.
func ownProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

// ProbeProc does what Main begins with, and says on ControlFD why it cannot.
func ProbeProc() error {
	err := ownProc()
	if err != nil {
		_, err = io.WriteString(os.NewFile(ControlFD, "said"), err.Error())
	}
	return err
}

type keeper struct {
	reaper *reaper.Reaper
	mu     sync.Mutex // one report at a time
}

func (k *keeper) start(request Request, files []*os.File) {
	pidfd, status, err := k.fork(request, files)
	if err != nil {
		k.report(Report{ID: request.ID, Error: err.Error()})
		return
	}
	k.report(Report{ID: request.ID}, pidfd)
	_ = pidfd.Close()
	go func() { k.report(Report{ID: request.ID, Ended: true, Status: uint32(<-status)}) }()
}

func (k *keeper) report(r Report, files ...*os.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = packet.Send(ControlFD, r, files...) // a daemon that is gone ends us in Main
}

// fork starts this program again in the role that was asked for.
func (k *keeper) fork(request Request, files []*os.File) (*os.File, <-chan unix.WaitStatus, error) {
	role, attributes := InitCommand, boxAttributes(request.Slot, request.Without)
	switch {
	case request.Op == OpZygote:
		role, attributes = ZygoteCommand, zygoteAttributes()
	case request.Op != OpBox:
		return nil, nil, fmt.Errorf("keeper: unknown request %q", request.Op)
	case request.Without.Check() != nil:
		return nil, nil, fmt.Errorf("keeper: %w", request.Without.Check())
	case request.Slot < 1 || request.Slot > MaxSlots:
		return nil, nil, fmt.Errorf("keeper: slot %d: 1 to %d are allowed", request.Slot, MaxSlots)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	descriptors := []uintptr{null.Fd(), null.Fd(), os.Stderr.Fd()}
	for _, file := range files {
		descriptors = append(descriptors, file.Fd())
	}
	pidfd := -1
	attributes.PidFD = &pidfd
	_, status, err := k.reaper.Start(func() (int, error) {
		return syscall.ForkExec("/proc/self/exe", []string{"guest", role}, &syscall.ProcAttr{
			Env: []string{}, Files: descriptors, Sys: attributes,
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start a process as %s: %w", role, err)
	}
	if pidfd < 0 {
		return nil, nil, errors.New("the kernel gave no pidfd (Linux 5.3 or newer is needed)")
	}
	return os.NewFile(uintptr(pidfd), "pidfd"), status, nil
}

// boxAttributes puts the first process of a box into namespaces of its own. They belong to the box's user namespace, in
// which that process gives up its capabilities before anything else runs there (box.Harden).
func boxAttributes(slot int, without layer.Set) *syscall.SysProcAttr {
	base := slot * slotSize
	mappings := []syscall.SysProcIDMap{
		{ContainerID: layout.RootUID, HostID: base, Size: 1},
		{ContainerID: layout.UserUID, HostID: base + 1, Size: 1},
		{ContainerID: layout.NobodyUID, HostID: base + 2, Size: 1},
	}
	attributes := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		UidMappings: mappings, GidMappings: mappings, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{Uid: layout.RootUID, Gid: layout.RootUID},
		Setsid:     true,
	}
	if without.Has(layer.UID) { // the keeper has one uid itself
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: layout.RootUID, HostID: layout.RootUID, Size: 1}}
		attributes.GidMappings, attributes.GidMappingsEnableSetgroups = attributes.UidMappings, false
		attributes.Credential.NoSetGroups = true
	}
	for _, namespace := range namespaces() {
		if without.Has(namespace.layer) {
			attributes.Cloneflags &^= namespace.flag
		}
	}
	if without.Has(layer.Users) {
		attributes.UidMappings, attributes.GidMappings, attributes.GidMappingsEnableSetgroups = nil, nil, false
	}
	return attributes
}

type namespace struct {
	layer string
	flag  uintptr
}

func namespaces() []namespace {
	return []namespace{
		{layer.Users, unix.CLONE_NEWUSER},
		{layer.PIDs, unix.CLONE_NEWPID},
		{layer.Network, unix.CLONE_NEWNET},
		{layer.IPC, unix.CLONE_NEWIPC},
		{layer.UTS, unix.CLONE_NEWUTS},
	}
}

// zygoteAttributes leave a zygote in the keeper's user and pid namespaces, so that it may enter boxes and come back,
// and give it an empty network.
func zygoteAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Setsid:     true,
	}
}
