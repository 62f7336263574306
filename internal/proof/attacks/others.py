# SPDX-License-Identifier: Apache-2.0
import os
import socket

seen = []
for n in range(2, 4096):
    if n != os.getpid():
        try:
            if os.getpgid(n) == os.getpgid(1):
                continue  # a thread of this sandbox's own process 1
            os.kill(n, 0)
            seen.append(f"process {n}")
        except OSError:
            pass
try:
    rows = open("/proc/net/unix").read().splitlines()[1:]
    seen += ["socket " + r.split()[7] for r in rows if len(r.split()) > 7]
except OSError:
    pass
for port in (22, 80, 443, 8722):
    with socket.socket() as s:
        s.settimeout(0.2)
        if s.connect_ex(("127.0.0.1", port)) == 0:
            seen.append(f"port {port}")
for folder in ("/tmp", "/dev/shm", "/home", "/run"):
    seen += [f"{folder}/{name}" for name in os.listdir(folder) if (folder, name) != ("/home", "user")]
print("BROKEN: " + ", ".join(seen[:5]) if seen else "held: no process, socket, port or file of another can be seen")
