// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"maps"

	"golang.org/x/sys/unix"
)

// cloneNamespaces are all CLONE_NEW* flags that clone(2) takes.
const cloneNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// cloneForbidden adds CLONE_PARENT: a session's parent may be a zygote or a keeper, which many tenants share, and its
// children are theirs to give birth to.
const cloneForbidden = cloneNamespaces | unix.CLONE_PARENT

// Flags that ask for pages of the host's huge page pool, which no memory cgroup counts.
const (
	mapHugeTLB   = unix.MAP_HUGETLB
	memfdHugeTLB = unix.MFD_HUGETLB
	shmHugeTLB   = 0o4000 // SHM_HUGETLB (linux/shm.h)
)

// tiocLinux is TIOCLINUX (asm-generic/ioctls.h), which pastes on consoles.
const tiocLinux = 0x541c

// userCalls is the allow-list for confined programs: number -> what happens. Everything else is unknown (ENOSYS).
func userCalls() map[uint32]check {
	calls := make(map[uint32]check, 400)
	for _, number := range append(allowed(), allowedHere()...) {
		calls[number] = check{action: actionAllow}
	}
	for _, number := range append(refused(), refusedHere()...) {
		calls[number] = check{action: actionRefuse}
	}
	for number, arg := range judged() {
		calls[number] = check{arg: &arg}
	}
	// A guest could stall the whole host's disks with these; every writable file system of a box is in memory.
	calls[unix.SYS_SYNC] = check{action: actionIgnore}
	calls[unix.SYS_SYNCFS] = check{action: actionIgnore}
	// Its flags are behind a pointer, where a filter cannot look: C libraries fall back to clone.
	calls[unix.SYS_CLONE3] = check{action: actionUnknown}
	return calls
}

// judged are the calls that are allowed by their arguments.
func judged() map[uint32]argCheck {
	// S_IFIFO, S_IFREG, S_IFSOCK and none; never a device.
	modes := []uint32{0, unix.S_IFIFO, unix.S_IFREG, unix.S_IFSOCK}
	calls := map[uint32]argCheck{
		unix.SYS_CLONE:   {index: 0, mask: cloneForbidden, values: []uint32{0}, match: actionAllow, otherwise: actionRefuse},
		unix.SYS_MKNODAT: {index: 2, mask: unix.S_IFMT, values: modes, match: actionAllow, otherwise: actionRefuse},
		// AF_VSOCK would reach a hypervisor past the network namespace; AF_NETLINK, AF_ALG and kin are kernel surface.
		unix.SYS_SOCKET: {
			index: 0, mask: ^uint32(0), values: []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6},
			otherwise: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT),
			second: &argCheck{
				index: 1, mask: 0xf, values: []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET},
				otherwise: actionRefuse,
				// SCTP, DCCP, MPTCP, UDP-Lite and kin are kernel surface, and asking for them loads modules.
				second: &argCheck{
					index: 2, mask: ^uint32(0), values: []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP},
					match: actionAllow, otherwise: unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT),
				},
			},
		},
		unix.SYS_MMAP:         without(3, mapHugeTLB),
		unix.SYS_MEMFD_CREATE: without(1, memfdHugeTLB),
		unix.SYS_SHMGET:       without(2, shmHugeTLB),
		unix.SYS_SOCKETPAIR: {
			index: 0, mask: ^uint32(0), values: []uint32{unix.AF_UNIX},
			match: actionAllow, otherwise: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT),
		},
		unix.SYS_PERSONALITY: {index: 0, mask: ^uint32(0), values: []uint32{0, ^uint32(0)}, match: actionAllow, otherwise: actionRefuse},
		unix.SYS_PRCTL: {
			index: 0, mask: ^uint32(0), values: prctls(), match: actionAllow,
			otherwise: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL),
		},
		unix.SYS_IOCTL: {
			// These push input into a terminal or change its line discipline.
			index: 1, mask: ^uint32(0), values: []uint32{unix.TIOCSTI, tiocLinux, unix.TIOCSETD},
			match: actionRefuse, otherwise: actionAllow,
		},
	}
	maps.Copy(calls, judgedHere(modes))
	return calls
}

// without allows a call unless the argument has the flag; it is then out of memory.
func without(index, flag uint32) argCheck {
	return argCheck{
		index: index, mask: flag, values: []uint32{0}, match: actionAllow, otherwise: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOMEM),
	}
}

// prctls are the options of prctl(2) that libraries use on themselves. PR_SET_SECCOMP, PR_SET_MM and the capability
// options are deliberately missing.
func prctls() []uint32 {
	return []uint32{
		unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG, unix.PR_GET_DUMPABLE, unix.PR_SET_DUMPABLE, unix.PR_SET_NAME,
		unix.PR_GET_NAME, unix.PR_GET_SECCOMP, unix.PR_CAPBSET_READ, unix.PR_SET_TIMERSLACK, unix.PR_GET_TIMERSLACK,
		unix.PR_SET_CHILD_SUBREAPER, unix.PR_GET_CHILD_SUBREAPER, unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_NO_NEW_PRIVS,
		unix.PR_SET_THP_DISABLE, unix.PR_GET_THP_DISABLE, unix.PR_SET_VMA, unix.PR_SET_PTRACER, unix.PR_GET_KEEPCAPS,
	}
}

// guestCalls are what the guest needs beyond a confined program: to confine what it starts.
func guestCalls() []uint32 {
	return []uint32{
		unix.SYS_SECCOMP, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE,
		unix.SYS_LANDLOCK_RESTRICT_SELF, unix.SYS_CAPSET, unix.SYS_PRCTL, unix.SYS_IOCTL, unix.SYS_EXECVEAT,
	}
}

// refused are calls that are known, dangerous, and answered with EPERM rather than ENOSYS so that the reason is plain.
func refused() []uint32 {
	return []uint32{
		// Mounts, roots and namespaces.
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
		unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_QUOTACTL, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		// Other processes.
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
		unix.SYS_PROCESS_MADVISE,
		// Kernel entry points.
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
		unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
		unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_VMSPLICE, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_SECCOMP, unix.SYS_MEMFD_SECRET,
		unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF,
		// fs.aio-max-nr is one budget for the whole host; POSIX libraries use threads.
		unix.SYS_IO_SETUP, unix.SYS_IO_SUBMIT, unix.SYS_IO_GETEVENTS, unix.SYS_IO_CANCEL, unix.SYS_IO_DESTROY,
		// Tells what of a shared file is in memory, and so what others use.
		unix.SYS_CACHESTAT,
		// The machine.
		unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_IOPRIO_SET,
		unix.SYS_VHANGUP,
	}
}

// allowed are the calls that every architecture has.
func allowed() []uint32 {
	return []uint32{
		// Files.
		unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64,
		unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_OPENAT, unix.SYS_OPENAT2,
		unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_STATX, unix.SYS_STATFS,
		unix.SYS_FSTATFS, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_READLINKAT, unix.SYS_GETDENTS64,
		unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT2,
		unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2,
		unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE,
		unix.SYS_FALLOCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNC_FILE_RANGE, unix.SYS_FADVISE64,
		unix.SYS_READAHEAD, unix.SYS_FLOCK, unix.SYS_FCNTL, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2,
		unix.SYS_SPLICE, unix.SYS_TEE, unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE, unix.SYS_UMASK,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_GETXATTR, unix.SYS_LGETXATTR,
		unix.SYS_FGETXATTR, unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR, unix.SYS_REMOVEXATTR,
		unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH,
		unix.SYS_INOTIFY_RM_WATCH,
		// Waiting.
		unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
		unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_SIGNALFD4, unix.SYS_TIMERFD_CREATE,
		unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME, unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV,
		unix.SYS_FUTEX_WAKE, unix.SYS_FUTEX_WAIT, unix.SYS_FUTEX_REQUEUE,
		unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_MEMBARRIER,
		// Memory.
		unix.SYS_BRK, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE,
		unix.SYS_MSYNC, unix.SYS_MINCORE, unix.SYS_MLOCK, unix.SYS_MLOCK2, unix.SYS_MUNLOCK, unix.SYS_MLOCKALL,
		unix.SYS_MUNLOCKALL, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_PKEY_MPROTECT,
		unix.SYS_GET_MEMPOLICY, unix.SYS_REMAP_FILE_PAGES,
		// System V shared memory, semaphores and queues: private to the box by its ipc namespace, counted as memory.
		unix.SYS_SHMAT, unix.SYS_SHMDT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP,
		unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
		// Processes.
		unix.SYS_EXECVE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_KILL,
		unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_GETPID,
		unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETPGID, unix.SYS_SETPGID, unix.SYS_GETSID, unix.SYS_SETSID,
		unix.SYS_SET_TID_ADDRESS, unix.SYS_GETPRIORITY, unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_GET,
		unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETPARAM,
		unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_GETATTR,
		unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_GET_PRIORITY_MAX, unix.SYS_SCHED_GET_PRIORITY_MIN,
		unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_GETCPU, unix.SYS_PRLIMIT64, unix.SYS_GETRUSAGE, unix.SYS_TIMES,
		// Signals.
		unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT,
		unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGSUSPEND,
		unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
		// Identity: harmless without capabilities.
		unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESUID, unix.SYS_GETRESGID,
		unix.SYS_GETGROUPS, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID,
		unix.SYS_SETRESUID, unix.SYS_SETRESGID, unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_SETGROUPS,
		unix.SYS_CAPGET,
		// Time.
		unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_NANOSLEEP,
		unix.SYS_GETTIMEOFDAY, unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_DELETE,
		unix.SYS_TIMER_GETOVERRUN, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_SETTIME,
		// Sockets: the empty network namespace is the wall, the families are judged at socket().
		unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_CONNECT, unix.SYS_SENDTO,
		unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG,
		unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_SHUTDOWN,
		// Information.
		unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_GETRANDOM,
	}
}
