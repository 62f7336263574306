// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/box"
)

// Command is the argument that makes the guest binary a keeper.
const Command = "keeper"

// InitCommand is the argument that makes the guest binary the first process of a box.
const InitCommand = "init"

// Main serves the daemon until its socket ends. The keeper then ends, and every box with it.
func Main() error {
	if err := ownProc(); err != nil {
		return err
	}
	k := &keeper{}
	for {
		var request Request
		files, more, err := Receive(ControlFD, &request)
		if err != nil {
			return err
		}
		if !more {
			return nil
		}
		k.start(request, files)
		for _, file := range files {
			_ = file.Close() // the box has its own
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

type keeper struct {
	mu sync.Mutex // one report at a time
}

func (k *keeper) start(request Request, files []*os.File) {
	process, pidfd, err := startBox(request.Slot, files)
	if err != nil {
		k.report(Report{ID: request.ID, Error: err.Error()})
		return
	}
	k.report(Report{ID: request.ID}, pidfd)
	_ = pidfd.Close()
	go func() {
		state, err := process.Wait()
		report := Report{ID: request.ID, Ended: true}
		if err != nil {
			report.Error = err.Error()
		} else if status, ok := state.Sys().(syscall.WaitStatus); ok {
			report.Status = uint32(status)
		}
		k.report(report)
	}()
}

func (k *keeper) report(r Report, files ...*os.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = Send(ControlFD, r, files...) // a daemon that is gone ends us in Main
}

// startBox starts the first process of a box in namespaces of its own. They belong to the box's user namespace, in
// which that process gives up its capabilities before anything else runs there (box.Harden).
func startBox(slot int, files []*os.File) (*os.Process, *os.File, error) {
	if slot < 1 || slot > MaxSlots {
		return nil, nil, fmt.Errorf("slot %d: 1 to %d are allowed", slot, MaxSlots)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close() //nolint:errcheck // nothing to lose
	base := slot * slotSize
	mappings := []syscall.SysProcIDMap{
		{ContainerID: box.RootUID, HostID: base, Size: 1},
		{ContainerID: box.UserUID, HostID: base + 1, Size: 1},
		{ContainerID: box.NobodyUID, HostID: base + 2, Size: 1},
	}
	pidfd := -1
	process, err := os.StartProcess("/proc/self/exe", []string{"guest", InitCommand}, &os.ProcAttr{
		Env:   []string{},
		Files: append([]*os.File{null, null, os.Stderr}, files...),
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
				unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
			UidMappings: mappings, GidMappings: mappings, GidMappingsEnableSetgroups: true,
			Credential: &syscall.Credential{Uid: box.RootUID, Gid: box.RootUID},
			Setsid:     true,
			PidFD:      &pidfd,
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("start the first process of a box: %w", err)
	}
	if pidfd < 0 {
		_ = process.Kill()
		return nil, nil, fmt.Errorf("the kernel gave no pidfd (Linux 5.3 or newer is needed)")
	}
	return process, os.NewFile(uintptr(pidfd), "pidfd"), nil
}
