# SPDX-License-Identifier: Apache-2.0
import os

seen = []
for path in ("/var/tmp/glovebox-proof-canary", "/etc/shadow", "/root/.ssh", "/var/run/docker.sock", "/boot/grub"):
    if os.path.exists(path):
        seen.append(path)
for path in ("/sys/kernel", "/proc/kcore", "/proc/sys/kernel/core_pattern", "/dev/mem", "/dev/kmsg"):
    if os.path.exists(path):
        seen.append(path)
try:
    open("/usr/bin/glovebox-proof", "w").close()
    seen.append("/usr/bin can be written")
except OSError:
    pass
print("BROKEN: " + ", ".join(seen) if seen else "held: neither the canary nor ten other files of the host can be seen, /usr cannot be written")
