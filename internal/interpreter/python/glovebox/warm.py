# SPDX-License-Identifier: Apache-2.0
"""For a zygote: what to do before it forks sessions, and in each of them right after."""

import gc
import os
import sys

from glovebox import audit, session

# Imported ahead of any session. All of them leave the process with one thread.
PRELOAD = (
    "asyncio", "base64", "collections", "csv", "datetime", "decimal", "json", "linecache", "logging", "math", "random", "re",
    "statistics", "traceback", "numpy", "pandas", "matplotlib", "matplotlib.pyplot", "matplotlib.backends.backend_agg",
)  # fmt: skip
OURS = (
    "audit", "awaiting", "bundle", "cell", "charts.figures", "charts.series", "charts.settings", "cutting", "display", "faults", "hooks",
    "jsonsafe", "leaving", "libraries", "pretty", "session", "streams", "tables", "values",
)  # fmt: skip

# Bytecode changes during its first executions (PEP 659); what forks share should have settled.
SPECIALIZED = 30


def warm(preload=PRELOAD, chart=True):
    """Imports the data stack, runs its first-call paths, and returns a session that is ready to be forked.

    Leaves no figure and no variable behind.
    """
    session.avoid_threads()
    for name in preload:
        try:
            __import__(name)
        except ImportError:
            continue  # a smaller image has less to warm
    for name in OURS:
        __import__("glovebox." + name)
    if "pandas" in sys.modules:
        _warm_tables()
    if chart and "matplotlib.pyplot" in sys.modules:
        _warm_chart()
    made = session.Session(os.open("/dev/null", os.O_RDWR))  # each fork puts its own channel in this place
    made.install()
    for _ in range(SPECIALIZED):
        rehearse(made)
    audit.listen()
    # Frozen objects are not touched by the collections of a session, so their pages stay shared.
    gc.collect()
    gc.freeze()
    return made


def _warm_tables():
    import pandas

    frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "x"], "c": [0.5, 1.5, None]})
    frame.groupby("b").c.mean()
    frame.describe()
    frame.to_string(max_rows=2)
    frame.to_html(max_rows=2, notebook=True)


def _warm_chart():
    import io

    from matplotlib import pyplot

    figure, axes = pyplot.subplots(dpi=160)
    axes.plot([1, 2, 3], label="a")
    axes.bar([1, 2], [3, 4])
    axes.set_title("销售额 −1 مبيعات हिन्दी 😀")
    axes.legend()
    figure.savefig(io.BytesIO(), format="png")
    pyplot.close(figure)


def rehearse(made):
    """Runs a cell like those to come. In a forked session its page faults are then paid before a user waits."""
    made.rehearse(_REHEARSAL if "pandas" in sys.modules else "print(1)")


_REHEARSAL = "import pandas as pd\nprint(pd.DataFrame({'a': [1, 1, 2], 'b': [1, 2, 3]}).groupby('a').b.sum())"


def chart():
    """In a forked session: draws a chart once, for those who will ask for one."""
    if "matplotlib.pyplot" in sys.modules:
        _warm_chart()


def after_fork():
    """Makes what siblings of one zygote share differ again: the states of random generators."""
    import random

    gc.enable()
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(int.from_bytes(os.urandom(4)))
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        uuid._last_timestamp = None
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile._name_sequence = None
