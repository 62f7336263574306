# SPDX-License-Identifier: Apache-2.0
import ctypes
import errno
import platform

# Arguments are invalid: a call that is let through fails otherwise, or does nothing.
NUMBERS = {
    "x86_64": {
        "ptrace": 101, "init_module": 175, "keyctl": 250, "add_key": 248, "unshare": 272, "perf_event_open": 298,
        "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "kcmp": 312,
        "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "pidfd_getfd": 438, "kexec_load": 246, "iopl": 172,
    },
    "aarch64": {
        "ptrace": 117, "init_module": 105, "keyctl": 219, "add_key": 217, "unshare": 97, "perf_event_open": 241,
        "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270, "kcmp": 272,
        "bpf": 280, "userfaultfd": 282, "io_uring_setup": 425, "pidfd_getfd": 438, "kexec_load": 104,
    },
}  # fmt: skip
libc = ctypes.CDLL(None, use_errno=True)
reached = []
for name, number in NUMBERS[platform.machine()].items():
    ctypes.set_errno(0)
    result = libc.syscall(number, -1, -1, -1, -1, -1, -1)
    if result >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        reached.append(f"{name} ({errno.errorcode.get(ctypes.get_errno(), 'done')})")
for family in ("AF_NETLINK", "AF_PACKET", "AF_ALG", "AF_VSOCK"):
    import socket

    try:
        socket.socket(getattr(socket, family), socket.SOCK_RAW if family != "AF_VSOCK" else socket.SOCK_STREAM).close()
        reached.append(family)
    except OSError:
        pass
print("BROKEN: " + ", ".join(reached) if reached else f"held: {len(NUMBERS[platform.machine()])} kernel entry points and 4 socket families are closed")
