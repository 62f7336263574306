# expect: contained
# kind: forgery; why: the channel is the driver's alone; a shell can neither open, take, trace nor stop what holds it
found=
(exec 7<>/proc/$PPID/fd/3) 2>/dev/null && found+=" opened"
(exec 7>/proc/self/fd/3) 2>/dev/null && found+=" inherited"
(echo x >/proc/$PPID/mem) 2>/dev/null && found+=" written"
[[ $(head -c 100 /proc/1/environ 2>/dev/null | tr -d '\0') ]] && found+=" environ"
kill -9 1 2>/dev/null && kill -STOP 1 2>/dev/null
python3 - $PPID <<'P' 2>/dev/null && found+=" taken"
import ctypes, os, sys
pid = int(sys.argv[1])
libc = ctypes.CDLL(None)
taken = libc.syscall(438, os.pidfd_open(pid), 3, 0)
traced = libc.syscall(101, 0x4206, pid, 0, 0)
sys.exit(0 if taken >= 0 or traced == 0 else 1)
P
[[ $found ]] && echo "BREACH:$found" || echo CONTAINED
