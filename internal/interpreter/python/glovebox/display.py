# SPDX-License-Identifier: Apache-2.0
"""display() and its relatives, as notebooks have them. Small: it is loaded at every start."""

import builtins

from glovebox import channel as wire

_session = None
_next_id = 0


def install(session):
    """Makes display() a builtin, as it is in a notebook.

    get_ipython() is not one, or libraries such as pandas would call it and so load IPython.
    A cell that reads the name gets it; see namespace.py.
    """
    global _session
    _session = session
    builtins.display = display


def get_ipython():
    """Returns IPython's shell, which is made at the first call."""
    from glovebox import magics

    return magics.shell(_session)


def display(
    *values, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False, clear=False, **extra
):
    """Shows values, each in the richest forms it has. With raw=True a value is a dict by MIME type itself."""
    from glovebox import bundle

    if clear:
        clear_output(wait=True)
    handle = None
    if display_id is not None:
        handle = DisplayHandle(None if display_id is True else display_id)
    options = {
        "include": include,
        "exclude": exclude,
        "metadata": metadata,
        "raw": raw,
        "mark": {"display_id": handle.display_id} if handle else {},
    }
    if extra.get("update") and handle:
        options["mark"]["update"] = True
    for value in values:
        bundle.show(_session, value, wire.DISPLAY, **options)
    return handle


class DisplayHandle:
    """Something shown that can be replaced later."""

    def __init__(self, display_id=None):
        global _next_id
        _next_id += 1
        self.display_id = str(display_id) if display_id is not None else f"d{_next_id}"

    def display(self, value, **options):
        display(value, display_id=self.display_id, **options)

    def update(self, value, **options):
        display(value, display_id=self.display_id, update=True, **options)

    def __repr__(self):
        return f"<DisplayHandle display_id={self.display_id}>"


def update_display(value, *, display_id, **options):
    """Replaces what was shown under display_id."""
    display(value, display_id=display_id, update=True, **options)


def clear_output(wait=False):
    """Says that what the cell has shown so far is out of date. Nothing is taken back: the reader decides."""
    _session.notice(
        "display.clear_wait" if wait else "display.clear", "The code asked to clear the output shown so far."
    )


def publish_display_data(data, metadata=None, *, transient=None, update=False, **_):
    """IPython's lower door: shows a ready bundle."""
    mark = dict(transient or {})
    if update:
        mark["update"] = True
    from glovebox import bundle

    bundle.show(_session, data, wire.DISPLAY, metadata=metadata, raw=True, mark=mark)
