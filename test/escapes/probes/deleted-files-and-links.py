# expect: limit
# kind: disk; why: links, deleted but open files, holes and attributes count against the quota as what they take
import os
taken = 0
held = []
try:
    while taken < (600 << 20) and len(held) < 200:
        fd = os.open("gone", os.O_CREAT | os.O_RDWR)
        os.unlink("gone")
        held.append(fd)
        for _ in range(8):
            taken += os.write(fd, b"x" * (1 << 20))
except OSError:
    pass
links = 0
try:
    open("one", "w").close()
    while links < 100_000:
        os.link("one", "l%d" % links)
        links += 1
except OSError:
    pass
print("BREACH: %d MiB, %d links" % (taken >> 20, links) if taken > (300 << 20) or links >= 100_000 else "CONTAINED")
