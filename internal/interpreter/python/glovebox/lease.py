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
