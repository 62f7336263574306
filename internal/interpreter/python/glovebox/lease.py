# SPDX-License-Identifier: Apache-2.0
"""Gives a session its lease. A forked one gets all that a started one has from its beginning: environment, folder and
limits; a started one gets the variables of its caller, which might have kept it from starting.
"""

import json
import os
import resource
import sys
import time


def apply(payload):
    """Applies a Prepare message (package guest/wire). No user code has run yet."""
    lease = json.loads(payload)
    os.environ.update(lease["env"])
    if "TZ" in lease["env"]:
        time.tzset()
    os.chdir(lease["dir"])
    for number, value in lease["rlimits"] or ():
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    _set_threads(lease["env"].get("OPENBLAS_NUM_THREADS", ""))


def is_count(text):
    """Tells whether a variable is a number of threads or processors: it may be the caller's, and hold anything."""
    return text.isascii() and text.isdigit() and len(text) < 6


def _set_threads(count):
    """Gives numpy its threads: it was imported, with one, before the lease said how many processors there are."""
    if "numpy" not in sys.modules or not is_count(count) or int(count) < 2:
        return
    before = dict(os.environ)
    try:
        import threadpoolctl
    except ImportError:
        return  # one thread is slower, and nothing worse
    for name in os.environ.keys() - before.keys():
        del os.environ[name]  # the library leaves a setting behind
    threadpoolctl.threadpool_limits(int(count), user_api="blas")
