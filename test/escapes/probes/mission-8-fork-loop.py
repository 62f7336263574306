# expect: limit
# kind: mission; why: processes are counted
import os, time
made = 0
try:
    while made < 2000:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        made += 1
except OSError:
    pass
print("BREACH: %d processes" % made if made > 64 else "CONTAINED")
os.kill(0, 9) if made > 64 else os._exit(0)
