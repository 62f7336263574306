# SPDX-License-Identifier: Apache-2.0
"""The end of a one-shot run: threads, exit handlers, the last frames, and out."""

import _thread
import sys
from types import FunctionType, ModuleType

from glovebox import OWN as __builtins__
from glovebox import channel as wire
from glovebox.channel import _exit  # loaded late, when user code may have broken os


def exit_code(error):
    """Returns the exit code of a SystemExit by CPython's rules, as the kernel reports it."""
    code = error.code
    if isinstance(code, SystemExit):
        code = code.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF if -(2**63) <= code < 2**63 else 255
    try:
        print(code, file=sys.stderr)
    except BaseException:
        pass  # a message that cannot be printed changes nothing about the exit
    return 1


def leave(session, cell, status, code):
    """Ends the process as CPython ends a script, but without the slow teardown of modules."""
    session._guard(_end_threads)
    session._finish_cell(cell)
    session._guard(_run_exit_handlers)
    session._guard(lambda: _let_go(session.module.__dict__))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    session.channel.flush()
    session.channel.send(wire.DONE, {"status": status, "exit_code": code})
    _exit(code)


def _end_threads():
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()


def _run_exit_handlers():
    import atexit

    atexit._run_exitfuncs()


def _let_go(names):
    """Drops the user's variables, so that files which nobody closed are written, as at CPython's own end."""
    import gc
    import io

    if not _thread._count():  # a daemon thread would stumble over its missing names
        for name, value in list(names.items()):
            # Modules, classes and functions stay: what is dropped may need them in its destructor.
            if not isinstance(value, (ModuleType, FunctionType, type)) and name != "__builtins__":
                names[name] = None
            del value
    # What hangs in a cycle or in a module is not dropped by that; only files among it matter.
    for item in gc.get_objects():
        kind = type(item)
        if kind is io.BufferedWriter or kind is io.TextIOWrapper or kind is io.BufferedRandom:
            try:
                item.flush()
            except (ValueError, OSError):
                pass  # closed, or nowhere to write
