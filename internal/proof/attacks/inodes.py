# SPDX-License-Identifier: Apache-2.0
import os

os.mkdir("many")
made = 0
try:
    for n in range(10_000):
        os.close(os.open(f"many/{n}", os.O_CREAT | os.O_WRONLY))
        made += 1
    print("BROKEN: 10000 files were made where 2048 are allowed")
except OSError as error:
    print(f"held: {made} files were made of 2048 allowed, then: {error.strerror}")
import shutil

shutil.rmtree("many")
