# expect: contained
# kind: exhaustion; why: terminals are counted for the whole host, and their buffers for nobody
import os
taken = []
try:
    while len(taken) < 100:
        taken.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError:
    pass
print("BREACH: %d terminals" % len(taken) if len(taken) > 64 else "CONTAINED")
