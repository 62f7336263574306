# SPDX-License-Identifier: Apache-2.0
"""sys.stdout, sys.stderr and sys.stdin of user code."""

import io
import sys

from glovebox.channel import STDERR, STDOUT


class _Raw(io.RawIOBase):
    """The binary side of an output stream: what is written leaves as frames."""

    def __init__(self, channel, kind, before=None):
        self._channel = channel
        self._kind = kind
        self._before = before

    name = property(lambda self: "<stdout>" if self._kind == STDOUT else "<stderr>")
    mode = "wb"

    def write(self, data):
        if self._before is not None:
            self._before()
        view = memoryview(data)
        if view.nbytes:
            self._channel.text(self._kind, view.cast("B") if view.contiguous else view.tobytes())
        return view.nbytes

    def writable(self):
        return True

    def fileno(self):
        return 1 if self._kind == STDOUT else 2

    def isatty(self):
        return False

    def close(self):
        """Does nothing: a library that closes stdout must not silence the rest of the session."""


def _text(raw):
    # backslashreplace: a lone surrogate is shown as an escape instead of breaking the run.
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="\n", line_buffering=True)


class StdinNotImplementedError(NotImplementedError, EOFError):
    """Raised when code asks for keyboard input. Also an EOFError, so that loops until end of input end."""


StdinNotImplementedError.__module__ = "builtins"  # tracebacks then show the name alone


class _Stdin(io.TextIOBase):
    """A standard input that says why there is none, instead of looking like an empty file."""

    encoding = "utf-8"
    errors = "strict"
    name = "<stdin>"
    mode = "r"

    def _refuse(self, *_args, **_kwargs):
        raise StdinNotImplementedError(
            "there is no keyboard input in a sandbox: put the value into the code, "
            "pass it as an input variable, or read it from a file"
        )

    read = readline = readlines = __next__ = _refuse
    buffer = property(lambda self: self)

    def __iter__(self):
        return self

    def readable(self):
        return True

    def fileno(self):
        return 0

    def isatty(self):
        return False

    def close(self):
        """Does nothing; quit() closes sys.stdin."""


def install(channel):
    """Replaces the three standard streams by ours."""
    out = _text(_Raw(channel, STDOUT))
    # What was printed first is shown first, even when it is not a whole line yet.
    err = _text(_Raw(channel, STDERR, before=out.flush))
    channel.own_texts(out, err)
    sys.stdout = sys.__stdout__ = out
    sys.stderr = sys.__stderr__ = err
    sys.stdin = sys.__stdin__ = _Stdin()
