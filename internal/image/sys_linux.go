// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// canBuild tells whether this system can build images at all.
const canBuild = true

// tryLock takes the exclusive lock of file without waiting and tells whether it
// did. The lock ends when file is closed, or its process dies.
func tryLock(file *os.File) (bool, error) {
	err := flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// lockFile takes the shared lock of file and waits for it.
func lockFile(file *os.File) error { return flock(file, syscall.LOCK_SH) }

func flock(file *os.File, how int) error {
	for {
		err := syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}

// freeBytes is the space that root may use on the filesystem of dir.
func freeBytes(dir string) (uint64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return stat.Bavail * uint64(stat.Bsize), nil //nolint:gosec // a block has a positive size
}

// syncFilesystem writes everything of dir's filesystem to the disk, so that what
// is renamed into place afterwards is whole after a power cut.
func syncFilesystem(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(file.Fd())))
}

// isolate gives cmd its own mount and pid namespaces, so that its mounts are
// nobody else's and killing it kills all it started; with offline also network,
// ipc and uts namespaces. The command dies with the thread that starts it.
func isolate(cmd *exec.Cmd, offline bool) {
	flags := uintptr(syscall.CLONE_NEWPID)
	if offline {
		flags |= syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   flags,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
		Setsid:       true,
	}
}

// ownedByRoot tells whether the file of info belongs to user and group 0.
func ownedByRoot(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0 && stat.Gid == 0
}

// capabilityXattr is the extended attribute that holds file capabilities.
const capabilityXattr = "security.capability"

// hasCapabilities tells whether the regular file at path has file capabilities.
func hasCapabilities(path string) bool {
	n, err := syscall.Getxattr(path, capabilityXattr, nil)
	return err == nil && n > 0
}

// dropCapabilities removes the file capabilities of the regular file at path.
func dropCapabilities(path string) error {
	if !hasCapabilities(path) {
		return nil
	}
	return os.NewSyscallError("removexattr", syscall.Removexattr(path, capabilityXattr))
}
