# SPDX-License-Identifier: Apache-2.0
with open("/dev/shm/fill", "wb") as f:
    for _ in range(12):
        f.write(b"\x01" * (16 << 20))
print("BROKEN: 192 MiB in /dev/shm were not counted as memory")
