# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs the code of a cell as a notebook does."""

import sys
from _ast import PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST, Expr, Interactive, Module

from glovebox import limits, namespace

_CO_COROUTINE = 0x80
# All CO_FUTURE_* flags: "from __future__ import annotations" holds for later cells too.
_FUTURES = 0x1FE0000


class Runner:
    """Runs cells in one namespace."""

    def __init__(self, session):
        self._session = session
        self._futures = 0
        self._sources = {}  # file name -> lines, for tracebacks
        self.loop = None  # the event loop of cells that await

    def run(self, cell):
        code = _dedented(cell["code"].removeprefix("\ufeff"))
        name = self._register(cell["name"], code)
        try:
            parts = self._compile(code, name)
        except SyntaxError as error:
            self._add_line(error, name)
            raise
        for part in parts:
            self._futures |= part.co_flags & _FUTURES
        self._session.channel.run_postponed()
        if any(part.co_flags & _CO_COROUTINE for part in parts):
            from glovebox import awaiting

            awaiting.run(self, parts, self._session.module.__dict__)
            return
        for part in parts:
            exec(part, self._session.module.__dict__)

    def _compile(self, source, name):
        """Returns the code objects of a cell: all but the last expression, then the last expression."""
        source = self._plain(source, name)
        flags = PyCF_ALLOW_TOP_LEVEL_AWAIT | self._futures
        tree = compile(source, name, "exec", flags | PyCF_ONLY_AST, dont_inherit=True)
        namespace.bind_aliases(self._session.module.__dict__, source, tree)
        body, last = tree.body, None
        if body and type(body[-1]) is Expr and not _is_silenced(source, body[-1]):
            last = body.pop()
        parts = []
        if body:
            first = compile(Module(body, []), name, "exec", flags, dont_inherit=True)
            parts.append(first)
            flags |= first.co_flags & _FUTURES
        if last is not None:
            parts.append(compile(Interactive([last]), name, "single", flags, dont_inherit=True))
        return parts

    def _add_line(self, error, name):
        """Errors that are found after parsing come without the line they are about."""
        lines = self._sources.get(name, ())
        if error.text is None and error.filename == name and error.lineno and error.lineno <= len(lines):
            error.text = lines[error.lineno - 1]

    def _plain(self, source, name):
        """Returns source as plain Python: magics, !commands and ? are rewritten by IPython when there are any."""
        if not _may_hold_magics(source):
            return source
        try:
            compile(source, name, "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT | PyCF_ONLY_AST, dont_inherit=True)
            return source
        except SyntaxError:
            pass
        from glovebox import magics

        return magics.transform(self._session, source)

    def _register(self, name, source):
        """Makes the cell's lines known to tracebacks. Returns the name to compile under.

        Cells of one name are told apart, or a function of an older cell would be shown
        with the lines of a newer one.
        """
        wanted, count = name, 1
        lines = [line[: limits.MAX_SOURCE_LINE] + "\n" for line in split_lines(source)]
        while wanted in self._sources and self._sources[wanted] != lines:
            count += 1
            wanted = f"{name} ({count})"
        if len(self._sources) >= limits.MAX_SOURCES:
            self._sources.pop(next(iter(self._sources)))
        self._sources[wanted] = lines
        self.publish_sources()
        return wanted

    def publish_sources(self):
        """Fills linecache, once it is loaded. A time of None keeps linecache from looking at the disk."""
        linecache = sys.modules.get("linecache")
        if linecache is not None:
            for name, lines in self._sources.items():
                if name not in linecache.cache:
                    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)

    def forget_sources(self):
        """Takes back what publish_sources told."""
        linecache = sys.modules.get("linecache")
        if linecache is not None:
            for name in self._sources:
                linecache.cache.pop(name, None)
        self._sources.clear()


def split_lines(source):
    """Returns the lines of a source as Python counts them; str.splitlines() knows more ends of line."""
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _dedented(source):
    """Takes away the indentation of the first line from all lines, as notebooks do with pasted code."""
    start = source.lstrip("\n")
    indent = start[: len(start) - len(start.lstrip(" \t"))]
    if not indent or start[len(indent) : len(indent) + 1] in ("", "\n", "\r"):
        return source
    return "\n".join(line.removeprefix(indent) for line in split_lines(source))


def _may_hold_magics(source):
    """A quick look, so that IPython is not loaded for each syntax error."""
    if not ("%" in source or "!" in source or "?" in source):
        return False
    for line in split_lines(source):
        text = line.strip()
        if text.startswith(("%", "!", "?")) or text.endswith("?"):
            return True
        if text.partition("=")[2].lstrip().startswith(("%", "!")):  # names = !ls
            return True
    return False


def _is_silenced(source, node):
    """Tells whether a semicolon follows the last expression."""
    lines = split_lines(source)
    if node.end_lineno > len(lines):
        return False
    rest = lines[node.end_lineno - 1].encode("utf-8", "surrogatepass")[node.end_col_offset :].decode("utf-8", "replace")
    for line in [rest, *lines[node.end_lineno :]]:
        code = line.partition("#")[0].strip(" \t\r\n\\)")
        if code:
            return code.startswith(";")
    return False
