# SPDX-License-Identifier: Apache-2.0
import os
import signal
import sys

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 64):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        os.execv("/usr/bin/python3", ["python3", "-c", "import time; time.sleep(600)", "glovebox-proof-leftover"])
    os._exit(0)
os.wait()
print("started")
sys.stdout.flush()
