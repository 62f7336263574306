# expect: contained
# kind: lateral; why: what of a shared file is in memory tells what other tenants use
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
path = next(p for p in ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/bin/sh") if os.path.exists(p))
fd = os.open(path, os.O_RDONLY)
answer = (ctypes.c_uint64 * 5)()
span = (ctypes.c_uint64 * 2)(0, 0)
got = libc.syscall(451, fd, span, answer, 0)
print("BREACH: cachestat of a shared file: %s" % list(answer) if got == 0 else "CONTAINED")
