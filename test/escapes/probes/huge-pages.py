# expect: contained
# kind: memory; why: pages of the host's huge page pool are outside the memory limit
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = ctypes.c_void_p
MAP_HUGETLB, MFD_HUGETLB, SHM_HUGETLB = 0x40000, 4, 0o4000
reached = []
if libc.memfd_create(b"x", MFD_HUGETLB) >= 0:
    reached.append("memfd_create")
if libc.shmget(0, 2 << 20, SHM_HUGETLB | 0o1600) >= 0:
    reached.append("shmget")
# Reserves nothing, so it succeeds even where the pool is empty.
if libc.mmap(None, ctypes.c_size_t(2 << 20), 3, 0x22 | MAP_HUGETLB | 0x4000, -1, 0) not in (None, ctypes.c_void_p(-1).value):
    reached.append("mmap")
print("BREACH: huge pages by " + ", ".join(reached) if reached else "CONTAINED")
