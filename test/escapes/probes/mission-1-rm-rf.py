# expect: contained
# kind: mission; why: rm -rf / must find nothing of the host and nothing of the image that it can take
import os, subprocess
subprocess.run("rm -rf --no-preserve-root / 2>/dev/null", shell=True)
left = [p for p in ("/usr/bin/python3", "/etc", "/usr/lib", "/proc/self") if not os.path.exists(p)]
print("BREACH: gone: %s" % left if left else "CONTAINED")
