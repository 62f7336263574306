# SPDX-License-Identifier: Apache-2.0
# Reads files of the image past the page cache and prints how many bytes a second the disk itself gave.
import mmap
import os
import time

WANTED = 2 << 20
buffer = mmap.mmap(-1, 256 << 10)


def delivered():
    with open("/proc/self/io") as counters:
        return next(int(line.split()[1]) for line in counters if line.startswith("read_bytes:"))


def read(path, least):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:  # the file system has no direct reads
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        while delivered() < least and os.readv(fd, [buffer]) == len(buffer):
            pass
    finally:
        os.close(fd)


def large_files():
    for folder, _, names in os.walk("/usr"):
        for path in (os.path.join(folder, name) for name in names):
            if os.path.isfile(path) and os.path.getsize(path) >= 4 * len(buffer):
                yield path


try:
    got, spent = 0, 0.0
    for path in large_files():
        before, began = delivered(), time.perf_counter()
        read(path, before + WANTED - got)
        fresh = delivered() - before
        if fresh > 0:  # the rest was in memory all along
            got, spent = got + fresh, spent + time.perf_counter() - began
        if got >= WANTED:
            break
    if got < WANTED:
        print(f"unmeasured: only {got} bytes came from a disk")
    else:
        print(f"read {got / spent:.0f} bytes a second")
except (OSError, StopIteration) as error:
    print(f"unmeasured: the kernel does not say what a process reads from disks ({error})")
