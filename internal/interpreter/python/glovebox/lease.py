# SPDX-License-Identifier: Apache-2.0
"""Gives a forked session what a started one has from its beginning: environment, folder and limits of its lease."""

import json
import os
import resource


def apply(payload):
    """Applies a Prepare message (package guest/wire). No user code has run yet."""
    lease = json.loads(payload)
    os.environ.update(lease["env"])
    os.chdir(lease["dir"])
    for number, value in lease["rlimits"]:
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    _set_threads(lease["env"].get("OPENBLAS_NUM_THREADS", ""))


def _set_threads(count):
    """Gives numpy its threads: it was imported, with one, before the lease said how many processors there are."""
    if not count.isdigit() or int(count) < 2:
        return
    before = dict(os.environ)
    try:
        import threadpoolctl
    except ImportError:
        return  # one thread is slower, and nothing worse
    for name in os.environ.keys() - before.keys():
        del os.environ[name]  # the library leaves a setting behind
    threadpoolctl.threadpool_limits(int(count), user_api="blas")
