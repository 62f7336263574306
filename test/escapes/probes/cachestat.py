# expect: contained
# kind: leak; why: which pages of a shared file are in memory tells what other tenants use
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
fd = os.open("/usr/bin/python3", os.O_RDONLY)
answer = (ctypes.c_uint64 * 5)()
span = (ctypes.c_uint64 * 2)(0, 0)
got = libc.syscall(451, fd, span, answer, 0)
print("BREACH: cachestat of a shared file: %s" % list(answer) if got == 0 else "CONTAINED")
