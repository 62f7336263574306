# SPDX-License-Identifier: Apache-2.0
import os
import time

# Several at once: on a busy host one process alone would get little without any limit.
begin = time.monotonic()
for _ in range(6):
    if os.fork() == 0:
        os.setsid()  # the kernel shares processors out to sessions first
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            pass
        os._exit(0)
for _ in range(6):
    os.wait()
print("used", sum(os.times()[2:4]) / (time.monotonic() - begin))
