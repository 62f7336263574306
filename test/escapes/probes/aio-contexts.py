# expect: contained
# kind: exhaustion; why: fs.aio-max-nr is one number for the whole host, databases included
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
context = ctypes.c_ulong(0)
if libc.syscall(206, 1024, ctypes.byref(context)) == 0:
    libc.syscall(207, context)
    print("BREACH: 1024 events of the host's budget for asynchronous I/O were taken")
else:
    print("CONTAINED")
