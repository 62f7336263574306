# expect: contained
# kind: process; why: neither files of /proc nor system calls open a process that is not one's own
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
got = []
own = os.getpid()
for pid in range(1, 400):
    if pid == own or os.path.exists("/proc/self/task/%d" % pid):
        continue
    for name in ("mem", "environ", "maps", "fd", "root", "cwd", "exe", "stack", "syscall", "auxv", "map_files"):
        path = "/proc/%d/%s" % (pid, name)
        try:
            os.listdir(path) if name in ("fd", "map_files") else os.readlink(path) if name in ("root", "cwd", "exe") else open(path, "rb").read(1)
            got.append(path)
        except OSError:
            pass
    if libc.syscall(101, 0x4206, pid, 0, 0) == 0:
        got.append("ptrace %d" % pid)
print("BREACH: %s" % got[:5] if got else "CONTAINED")
