# expect: contained
# kind: process; why: a child made with CLONE_PARENT belongs to whoever started the session: a zygote that all tenants share
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
CLONE_PARENT = 0x8000
pid = libc.syscall(56, CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
if pid < 0:
    print("CONTAINED")
else:
    try:
        os.waitpid(pid, 0)
        print("CONTAINED")
    except ChildProcessError:
        print("BREACH: process %d was born as a child of the session's own parent" % pid)
