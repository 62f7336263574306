// SPDX-License-Identifier: Apache-2.0

package box

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/confine"
)

// guestCapabilities are what PID 1 of a box keeps, within the box's own user namespace: enough to start programs as
// another user, to end them, and nothing about mounts, networks or namespaces.
func guestCapabilities() map[int]bool {
	return map[int]bool{
		unix.CAP_SETUID: true, unix.CAP_SETGID: true, unix.CAP_KILL: true,
		// To empty the bounding set of what it starts.
		unix.CAP_SETPCAP: true,
	}
}

// Harden takes from every thread of this process what Build needed and the guest does not. It cannot be undone.
func Harden() error {
	keep := guestCapabilities()
	if err := allThreads("dumpable", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0); err != nil {
		return err
	}
	for capability := 0; capability <= 63; capability++ {
		if keep[capability] {
			continue
		}
		_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(capability), 0)
		if errno == unix.EINVAL {
			break // past the last one that this kernel knows
		}
		if errno != 0 {
			return fmt.Errorf("bounding set, capability %d: %w", capability, errno)
		}
	}
	var bits uint64
	for capability := range keep {
		bits |= 1 << capability
	}
	if err := setCapabilities(bits); err != nil {
		return err
	}
	if err := allThreads("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	if err := confine.InstallFilter(confine.CompileGuestFilter(), unix.SECCOMP_FILTER_FLAG_TSYNC); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}

func allThreads(what string, trap, a1, a2, a3 uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(trap, a1, a2, a3); errno != 0 {
		return fmt.Errorf("%s: %w", what, errno)
	}
	return nil
}

func setCapabilities(bits uint64) error {
	header, data := confine.CapabilityData(bits)
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return fmt.Errorf("capabilities: %w", errno)
	}
	return nil
}
