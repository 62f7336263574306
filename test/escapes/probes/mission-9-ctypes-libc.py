# expect: contained
# kind: mission; why: the C library gives no right that the kernel does not
import ctypes
libc = ctypes.CDLL("libc.so.6", use_errno=True)
done = []
for name, arguments in (
    ("setuid", (0,)), ("mount", (b"none", b"/tmp", b"tmpfs", 0, None)), ("reboot", (0,)), ("chroot", (b"/tmp",)),
    ("sethostname", (b"x", 1)), ("unshare", (0x10000000,)), ("swapoff", (b"/x",)), ("acct", (None,)), ("iopl", (3,)),
    ("ptrace", (16, 1, 0, 0)), ("kill", (1, 9)), ("setns", (0, 0)), ("umount2", (b"/proc", 2)), ("pivot_root", (b"/", b"/")),
):
    try:
        if getattr(libc, name)(*arguments) == 0:
            done.append(name)
    except AttributeError:
        pass
print("BREACH: %s" % done if done else "CONTAINED")
