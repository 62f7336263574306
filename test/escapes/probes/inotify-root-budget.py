# expect: contained
# kind: exhaustion; why: instances of all sandboxes count for the owner of their user namespace too, who is root on the host
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
taken = []
while len(taken) < 100:
    descriptor = libc.inotify_init1(0)
    if descriptor < 0:
        break
    taken.append(descriptor)
for descriptor in taken:
    os.close(descriptor)
print("BREACH: %d inotify instances" % len(taken) if len(taken) > 8 else "CONTAINED")
