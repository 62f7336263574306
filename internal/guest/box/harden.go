// SPDX-License-Identifier: Apache-2.0

package box

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/confine"
	"glovebox/internal/guest/layer"
)

// guestCapabilities are what PID 1 of a box keeps, within the box's own user namespace: enough to start programs as
// another user, to empty their bounding sets and to end them, and nothing about mounts, networks or namespaces.
func guestCapabilities() []int {
	return []int{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_KILL}
}

// Harden takes from every thread of this process what Build needed and the guest does not. It cannot be undone.
func Harden(without layer.Set) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("dumpable: %w", err)
	}
	var bits uint64
	for _, capability := range guestCapabilities() {
		bits |= 1 << capability
	}
	// The bounding set stays: no_new_privs already keeps an executed program from gaining what is not permitted here,
	// and emptying it on every thread would cost more than all mounts together.
	if err := setCapabilities(bits); err != nil {
		return err
	}
	if err := allThreads("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); err != nil {
		return err
	}
	if without.Has(layer.Seccomp) {
		return nil
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
