# SPDX-License-Identifier: Apache-2.0
import os

written = 0
try:
    with open("fill", "wb") as f:
        for _ in range(64):
            written += f.write(b"\x01" * (1 << 20))
            f.flush()
    print("BROKEN: 64 MiB were written where 16 are allowed")
except OSError as error:
    word = "held" if written <= 16 << 20 else "BROKEN"
    print(f"{word}: {written >> 20} of 16 MiB were written, then: {error.strerror}")
os.unlink("fill")
