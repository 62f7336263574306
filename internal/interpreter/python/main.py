# SPDX-License-Identifier: Apache-2.0
"""Starts the Python interpreter of a sandbox.

This file is compiled at every start (Python caches no byte code of a script), so
it holds nothing but the way to the package beside it, which is cached.
"""

import sys

sys.path.insert(0, __file__[: -len("/main.py")])
from glovebox.session import Session  # noqa: E402

del sys.path[0]  # the package finds its own modules; user code must not find ours by accident
Session(3).serve()
