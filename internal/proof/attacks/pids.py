# SPDX-License-Identifier: Apache-2.0
import os
import time

children = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        children += 1
    print("BROKEN: 200 processes were started where 32 are allowed")
except OSError as error:
    word = "held" if children < 32 else "BROKEN"
    print(f"{word}: process {children + 2} of 32 was refused: {error.strerror}")
os._exit(0)
