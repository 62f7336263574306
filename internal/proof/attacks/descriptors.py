# SPDX-License-Identifier: Apache-2.0
import os

files = []
try:
    for _ in range(5_000):
        files.append(os.open("/dev/null", os.O_RDONLY))
    print("BROKEN: 5000 descriptors were opened")
except OSError as error:
    count = len(files)
    os.closerange(files[0], files[-1] + 1)
    print(f"held: {count} descriptors were opened, then: {error.strerror}")
