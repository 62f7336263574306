# SPDX-License-Identifier: Apache-2.0
"""Confines this process by the description that everything in a box applies to itself.

The Go twin is package guest/confine, which says what each step is for. A forked session
cannot execute a program to be confined by it, so it takes the same steps here.
"""

import ctypes
import os
import resource
import signal

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long

# Numbers that are the same on every architecture since they were added (asm-generic/unistd.h).
_CLOSE_RANGE, _LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 436, 444, 445, 446
_SECCOMP = {"x86_64": 317, "aarch64": 277}

_PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 24, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_SET_MODE_FILTER = 1
_CAP_VERSION_3 = 0x20080522
_EINVAL = 22

# What namespaces a box has; its user namespace is entered with them.
_NAMESPACES = 0x10000000 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x40000000

_READ, _EXECUTE, _WRITE = 1, 2, 4
_FS_EXECUTE, _FS_WRITE_FILE, _FS_READ_FILE, _FS_READ_DIR = 1, 2, 4, 8
_FS_REMOVE_DIR, _FS_REMOVE_FILE, _FS_MAKE_CHAR, _FS_MAKE_DIR, _FS_MAKE_REG = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
_FS_MAKE_SOCK, _FS_MAKE_FIFO, _FS_MAKE_BLOCK, _FS_MAKE_SYM = 1 << 9, 1 << 10, 1 << 11, 1 << 12
_FS_REFER, _FS_TRUNCATE, _FS_IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_RIGHTS_READ = _FS_READ_FILE | _FS_READ_DIR
_RIGHTS_WRITE = (
    _FS_WRITE_FILE | _FS_REMOVE_DIR | _FS_REMOVE_FILE | _FS_MAKE_DIR | _FS_MAKE_REG | _FS_MAKE_SOCK | _FS_MAKE_FIFO
    | _FS_MAKE_SYM | _FS_REFER | _FS_TRUNCATE | _FS_IOCTL_DEV
)  # fmt: skip
_RIGHTS_NEVER = _FS_MAKE_CHAR | _FS_MAKE_BLOCK


class _Filter(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def prepare(spec):
    """Turns a description into what enter() uses, once for all sessions that share it: forks only read it."""
    program = b"".join(
        i.get("c", 0).to_bytes(2, "little") + bytes((i.get("t", 0), i.get("f", 0))) + i.get("k", 0).to_bytes(4, "little")
        for i in spec["filter"]
    )
    spec["program"] = ctypes.create_string_buffer(program, len(program))
    spec["fprog"] = _Filter(len(spec["filter"]), ctypes.addressof(spec["program"]))
    spec["landlock"] = "landlock" not in spec.get("without", ())  # a host without it, accepted by its operator
    if spec["landlock"]:
        spec["abi"] = _call(_LANDLOCK_CREATE, 0, 0, 1)
    spec["seccomp"] = _SECCOMP[os.uname().machine]
    return spec


def enter(spec, box, cgroups):
    """Puts the calling process, which has one thread, into the box and confines it for good.

    Raises OSError when a step fails; the process must then end at once.
    """
    os.setsid()
    for descriptor in cgroups:
        os.write(descriptor, b"0")
    os.setns(box, _NAMESPACES)
    os.chdir("/")
    os.close(box)
    _close_from(3 + 1)
    for number, value in ((r["resource"], r["value"]) for r in spec["rlimits"]):
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    _drop_capabilities(spec)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _restrict_paths(spec)
    _call(spec["seccomp"], _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(spec["fprog"]))
    # Until here other sessions of the box could not look into this process.
    _prctl(_PR_SET_DUMPABLE, 1)


def reset_signals():
    """Gives every signal the action that a new interpreter has; keepers ignore them, and that is inherited."""
    for number in range(1, signal.NSIG):
        if number not in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue  # kept by the C library
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _drop_capabilities(spec):
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
            if ctypes.get_errno() == _EINVAL:
                break  # past the last one that this kernel knows
            _fail()
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    os.setgroups([])
    os.setresgid(spec["gid"], spec["gid"], spec["gid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    header = (ctypes.c_uint32 * 2)(_CAP_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    if _libc.capset(header, data):
        _fail()


def _restrict_paths(spec):
    if not spec["landlock"]:
        return
    handled = _known(_RIGHTS_READ | _RIGHTS_WRITE | _RIGHTS_NEVER | _FS_EXECUTE, spec["abi"])
    rules = _call(_LANDLOCK_CREATE, ctypes.byref(ctypes.c_uint64(handled)), 8, 0)
    for rule in spec["paths"]:
        rights = 0
        if rule["access"] & _READ:
            rights |= _RIGHTS_READ
        if rule["access"] & _EXECUTE:
            rights |= _FS_EXECUTE
        if rule["access"] & _WRITE:
            rights |= _RIGHTS_WRITE
        path = os.open(rule["path"], os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
        attributes = _known(rights, spec["abi"]).to_bytes(8, "little") + path.to_bytes(4, "little")
        _call(_LANDLOCK_ADD, rules, 1, attributes, 0)
        os.close(path)
    _call(_LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)


def _known(rights, abi):
    if abi < 2:
        rights &= ~_FS_REFER
    if abi < 3:
        rights &= ~_FS_TRUNCATE
    if abi < 5:
        rights &= ~_FS_IOCTL_DEV
    return rights


def _close_from(first):
    _call(_CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), 0)


def _prctl(option, value):
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        _fail()


def _call(number, *arguments):
    result = _syscall(number, *arguments)
    if result < 0:
        _fail()
    return result


def _fail():
    error = ctypes.get_errno()
    raise OSError(error, os.strerror(error))
