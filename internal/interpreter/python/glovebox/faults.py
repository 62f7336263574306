# SPDX-License-Identifier: Apache-2.0
"""Describes an exception: name, value, and a traceback of user frames only."""

import traceback  # loads linecache, which hooks.py fills with the lines of cells
from errno import EHOSTUNREACH, EMFILE, ENETUNREACH

from glovebox import hooks, limits
from glovebox.cutting import cut

HERE = __file__[: -len("faults.py")]
HIDDEN = "/glovebox-hidden.py"  # the end of the file name of our functions that pose as another library's
_MAGIC_MACHINERY = "/IPython/core/"  # what runs a magic is no part of the user's story

interrupted = False  # whether the exception described last was a KeyboardInterrupt


def describe(error):
    """Returns the payload of an ERROR frame. Never raises."""
    global interrupted
    interrupted = isinstance(error, KeyboardInterrupt)
    name = type(error).__name__
    try:
        text = _format(error)
    except BaseException as second:
        text = f"{name}: the traceback could not be made: {type(second).__name__}\n"
    return {
        "name": cut(name, 1000),
        "value": cut(_value(error), limits.MAX_ERROR_VALUE),
        "traceback": cut(text, limits.MAX_TRACEBACK),
    }


def _value(error):
    try:
        return str(error)
    except BaseException as second:
        return f"<str() of the {type(error).__name__} raised {type(second).__name__}>"


def _format(error):
    depth = _depth(error.__traceback__)
    limit = -limits.MAX_FRAMES if depth > 10 * limits.MAX_FRAMES else None  # the lines of 100,000 frames take seconds
    report = traceback.TracebackException(type(error), error, error.__traceback__, compact=True, limit=limit)
    _tidy(report, set())
    left_out = f"[the outer {depth - limits.MAX_FRAMES:,} frames are left out]\n" if limit else ""
    return left_out + "".join(report.format()) + _hint(error)


def _hint(error):
    """What to do about an error that does not say it itself."""
    if isinstance(error, UnicodeDecodeError) and error.encoding.lower() in ("utf-8", "utf8", "utf_8"):
        return _encoding_hint(error.object)
    if isinstance(error, OSError) and error.errno == EMFILE:
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"Hint: a process may have {most} files open at once here (limit open_files). Close what is not needed, or ask for more.\n"
    if _is_unreachable(error) and not hooks.has_network():
        return f"Hint: {hooks.NO_NETWORK}. Give the code what it needs as files.\n"
    return ""


def _encoding_hint(content):
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "Hint: this is UTF-16 text. Read it with encoding='utf-16'.\n"
    return (
        "Hint: this is not UTF-8 text. Name its encoding when you read it, as in encoding='gb18030' (Chinese), 'big5' "
        "(Traditional Chinese), 'shift_jis' (Japanese), 'cp949' (Korean), 'cp1251' (Cyrillic), 'cp1252' (Western Europe).\n"
    )


def _is_unreachable(error):
    """Tells whether an error comes from one of the network; libraries wrap them several times."""
    for _ in range(10):
        if isinstance(error, OSError) and error.errno in (ENETUNREACH, EHOSTUNREACH):
            return True
        reason = getattr(error, "reason", None)
        if isinstance(reason, OSError) and reason.errno in (ENETUNREACH, EHOSTUNREACH):
            return True
        error = error.__cause__ or error.__context__
        if error is None:
            return False
    return False


def _depth(frame):
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.tb_next
    return depth


def _is_ours(name):
    return name.startswith(HERE) or name.endswith(HIDDEN) or _MAGIC_MACHINERY in name


def _is_way_in(name):
    """The frames between the interpreter's loop and the cell; a cell that awaits runs under asyncio's loop."""
    return _is_ours(name) or name.endswith("/asyncio/base_events.py")


def _tidy(report, seen):
    """Removes our frames and bounds the texts of a report and of all that are linked to it."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    if report.stack is not None:
        start = next((at for at, frame in enumerate(report.stack) if not _is_way_in(frame.filename)), len(report.stack))
        report.stack[:] = [frame for frame in report.stack[start:] if not _is_ours(frame.filename)]
        if not report.stack:
            report.stack = None
    if isinstance(getattr(report, "_str", None), str):
        report._str = cut(report._str, limits.MAX_ERROR_VALUE)
    _tidy(report.__cause__, seen)
    _tidy(report.__context__, seen)
    for inner in report.exceptions or ():
        _tidy(inner, seen)
