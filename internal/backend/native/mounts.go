// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"glovebox/internal/sandbox"
)

// detachedTree returns a private, read-only, nosuid, nodev mount of a folder, which has no place in any namespace yet.
// The folder's parents need not be open to the box: only this handle is given to it.
func detachedTree(path string, extra uint64) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, &os.PathError{Op: "open tree", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	// Private: otherwise a mount made on it inside the box would appear on the host too.
	attr := &unix.MountAttr{
		Attr_set:    unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | extra,
		Propagation: unix.MS_PRIVATE,
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return nil, errors.Join(&os.PathError{Op: "set mount attributes", Path: path, Err: err}, file.Close())
	}
	return file, nil
}

// resize changes the quota of a tmpfs of the box, known by a folder on it.
func resize(dir *os.File, bytes, inodes int64) error {
	fd, err := unix.Fspick(int(dir.Fd()), "", unix.FSPICK_CLOEXEC|unix.FSPICK_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("pick file system: %w", err)
	}
	defer unix.Close(fd)
	options := []struct {
		key   string
		value int64
	}{{"size", bytes}, {"nr_inodes", inodes}}
	for _, option := range options {
		if err := unix.FsconfigSetString(fd, option.key, strconv.FormatInt(option.value, 10)); err != nil {
			return fmt.Errorf("set %s=%d: %w", option.key, option.value, err)
		}
	}
	if err := unix.FsconfigReconfigure(fd); err != nil {
		return fmt.Errorf("change quota: %w", err)
	}
	return nil
}

// fullness names the quota of a tmpfs that is used up.
func fullness(dir *os.File, bytes, inodes sandbox.LimitName) []sandbox.Hit {
	if dir == nil {
		return nil
	}
	var stat unix.Statfs_t
	if unix.Fstatfs(int(dir.Fd()), &stat) != nil {
		return nil
	}
	var hits []sandbox.Hit
	size := int64(stat.Blocks) * stat.Bsize //nolint:gosec // sizes of our own mounts
	if stat.Bavail == 0 {
		hits = append(hits, sandbox.Hit{Limit: bytes, Measured: size, Value: size})
	}
	if stat.Ffree == 0 {
		hits = append(hits, sandbox.Hit{Limit: inodes, Measured: int64(stat.Files), Value: int64(stat.Files)}) //nolint:gosec // as above
	}
	return hits
}

// asUser runs do on a thread whose file access is that of uid: what it makes belongs to that user, and it may touch no
// more than that user may. The thread is thrown away if it cannot be turned back.
func asUser(uid int, do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETFSGID, uintptr(uid), 0, 0); errno != 0 {
			result <- errno
			return
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETFSUID, uintptr(uid), 0, 0); errno != 0 {
			result <- errno
			return
		}
		result <- do()
		// The goroutine ends while it is locked: the runtime ends the thread, and its identity with it.
	}()
	return <-result
}
