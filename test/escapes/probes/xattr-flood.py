# expect: limit
# kind: disk; why: extended attributes are memory of the kernel
import os
total, files = 0, 0
try:
    while total < (700 << 20):
        name = "f%d" % files
        open(name, "w").close()
        files += 1
        for n in range(16):
            os.setxattr(name, "user.%d" % n, b"x" * 65000)
            total += 65000
except OSError as error:
    print(error)
print("BREACH: %d MiB in attributes" % (total >> 20) if total > (600 << 20) else "CONTAINED")
