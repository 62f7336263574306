// SPDX-License-Identifier: Apache-2.0

package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// allowedHere are the calls of this architecture that newer ones no longer have.
func allowedHere() []uint32 {
	return []uint32{
		unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_ACCESS,
		unix.SYS_READLINK, unix.SYS_GETDENTS, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_RENAME,
		unix.SYS_RENAMEAT, unix.SYS_LINK, unix.SYS_SYMLINK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN,
		unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_DUP2, unix.SYS_PIPE, unix.SYS_POLL,
		unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_SIGNALFD,
		unix.SYS_INOTIFY_INIT, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_GETPGRP, unix.SYS_ALARM, unix.SYS_PAUSE,
		unix.SYS_TIME, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_ARCH_PRCTL,
	}
}

func refusedHere() []uint32 {
	return []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_USELIB}
}

func judgedHere(modes []uint32) map[uint32]argCheck {
	return map[uint32]argCheck{
		unix.SYS_MKNOD: {index: 1, mask: unix.S_IFMT, values: modes, match: actionAllow, otherwise: actionRefuse},
	}
}
