# SPDX-License-Identifier: Apache-2.0
"""plt.pause(), in a file of its own: a signal may end it at any moment (see session.WAITING)."""

import time


def pause(interval):
    """Waits. A picture for each step of a simulated animation would be noise: the last state is shown."""
    time.sleep(interval)
