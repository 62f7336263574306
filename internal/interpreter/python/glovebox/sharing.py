# SPDX-License-Identifier: Apache-2.0
"""For a zygote: keeps what its forks share from being copied only because it is looked at.

A fork shares its memory until somebody writes to it, and CPython writes to whatever it
uses: it counts references in the object itself. An object that PEP 683 calls immortal is
not counted. Here everything that the zygote holds becomes so: half of the page faults of
a short run go away. The price: what a session drops of it is not freed.
"""

import ctypes
import gc
import sys
from types import CodeType

_MADV_COLLAPSE = 25  # since Linux 6.1
_HUGE = 2 << 20
# The collector does not look into code: it can be no part of a cycle.
_OF_CODE = ("co_consts", "co_exceptiontable", "co_filename", "co_linetable", "co_name", "co_names", "co_qualname", "co_varnames")


def share():
    """Call it last, right before the first fork: what is made afterwards is counted as ever."""
    _immortalize()
    _collapse()


def _immortalize():
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little" or sys.getrefcount(None) < 1 << 30:
        return  # this interpreter counts every reference
    # On 64 bits the low half of a count says so; the form is that of None, which is immortal from the start.
    count = ctypes.c_uint32
    immortal = count.from_address(id(None)).value
    gc.unfreeze()
    gc.collect()
    for address in _reachable():
        count.from_address(address).value = immortal
    gc.collect()
    gc.freeze()


def _reachable():
    """Returns the address of every object that the collector knows, and of all they refer to."""
    found = set()
    waiting = gc.get_objects()
    while waiting:
        item = waiting.pop()
        if id(item) not in found:
            found.add(id(item))
            waiting.extend(gc.get_referents(item))
            if type(item) is CodeType:
                waiting.extend(getattr(item, name) for name in _OF_CODE)
    return found


def _collapse():
    """Merges memory into huge pages, so that a fork copies and drops fewer entries of page tables. Only for speed."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    with open("/proc/self/maps") as maps:
        areas = [line.split() for line in maps]
    for area in areas:
        if area[1] != "rw-p" or (len(area) > 5 and area[5] != "[heap]"):
            continue
        start, end = (int(bound, 16) for bound in area[0].split("-"))
        for address in range(-(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE, _HUGE):
            advise(address, _HUGE, _MADV_COLLAPSE)  # a kernel or a place that cannot is left as it is
