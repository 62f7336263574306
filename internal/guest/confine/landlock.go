// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/layer"
)

// ErrNoLandlock means that the kernel has no Landlock, or it is switched off.
var ErrNoLandlock = errors.New("the kernel has no Landlock (it came with Linux 5.13; see the lsm= boot option)")

const (
	landlockRead = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	landlockWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	// Devices are never granted to anybody.
	landlockNever = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

	// The rights that a rule on a file, not a folder, may carry.
	landlockOnFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// LandlockABI returns the version of the kernel's Landlock, or ErrNoLandlock.
func LandlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("%w: %w", ErrNoLandlock, errno)
	}
	return int(abi), nil
}

// known drops the rights that an older kernel does not know. What it drops stays ungoverned by Landlock there; the
// read-only root, the missing capabilities and seccomp still govern it.
func known(rights uint64, abi int) uint64 {
	if abi < 2 {
		rights &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi < 3 {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 5 {
		rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// restrictPaths applies the rules to the calling thread. Network and scopes are deliberately left out: the namespaces
// already part the boxes, and the sessions of one box share it.
func restrictPaths(spec *Spec) error {
	if spec.Without.Has(layer.Landlock) {
		return nil
	}
	abi, err := LandlockABI()
	if err != nil {
		return err
	}
	all := known(landlockRead|landlockWrite|landlockNever|unix.LANDLOCK_ACCESS_FS_EXECUTE, abi)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	// Only the first member is passed, so that every kernel with Landlock knows the size.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)),
		unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return fmt.Errorf("create Landlock rules: %w", errno)
	}
	defer unix.Close(int(fd))
	for _, rule := range spec.Paths {
		if err := addRule(int(fd), rule, abi); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("apply Landlock rules: %w", errno)
	}
	return nil
}

func addRule(ruleset int, rule PathRule, abi int) error {
	fd, err := unix.Open(rule.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open for Landlock", Path: rule.Path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &os.PathError{Op: "stat for Landlock", Path: rule.Path, Err: err}
	}
	var rights uint64
	if rule.Access&AccessRead != 0 {
		rights |= landlockRead
	}
	if rule.Access&AccessExecute != 0 {
		rights |= unix.LANDLOCK_ACCESS_FS_EXECUTE
	}
	if rule.Access&AccessWrite != 0 {
		rights |= landlockWrite
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= landlockOnFile
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: known(rights, abi), Parent_fd: int32(fd)} //nolint:gosec // a descriptor
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return &os.PathError{Op: "add Landlock rule", Path: rule.Path, Err: errno}
	}
	return nil
}
