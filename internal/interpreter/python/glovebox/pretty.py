# SPDX-License-Identifier: Apache-2.0
"""Text forms of values: repr(), but long containers are wrapped and bounded."""

import sys
from types import FunctionType

from glovebox import limits
from glovebox.cutting import cut

_BRACKETS = {list: "[]", tuple: "()", set: "{}", dict: "{}", frozenset: ("frozenset({", "})")}


def pretty(value, inspect):
    """Returns the text of a value; what its __repr__ raises becomes part of the text.

    inspect is shown such an error first, and may raise it on.
    """
    return _Printer(inspect).text(value, 0, ())


class _Printer:
    def __init__(self, inspect):
        self._inspect = inspect
        self._budget = limits.MAX_PRETTY_ITEMS * 20  # items over all containers

    def text(self, value, indent, parents):
        brackets = _BRACKETS.get(type(value))
        if brackets is None:
            return _named(value) or self._default_dict(value, indent, parents) or safe_repr(value, self._inspect)
        if id(value) in parents:
            return brackets[0] + "..." + brackets[1]
        if len(parents) >= limits.MAX_PRETTY_DEPTH:
            return brackets[0] + "…" + brackets[1]
        if not value:
            return safe_repr(value, self._inspect)
        parts = self._parts(value, indent + 1, (*parents, id(value)))
        return _join(value, brackets, parts, indent + len(brackets[0]))

    def _parts(self, value, indent, parents):
        items = value.items() if type(value) is dict else _in_order(value)
        parts = []
        for item in items:
            self._budget -= 1
            if len(parts) >= limits.MAX_PRETTY_ITEMS or self._budget < 0:
                parts.append(f"... {len(value) - len(parts):,} more")
                break
            if type(value) is dict:
                key = self.text(item[0], indent, parents)
                parts.append(f"{key}: {self.text(item[1], indent + 2, parents)}")
            else:
                parts.append(self.text(item, indent, parents))
        return parts


    def _default_dict(self, value, indent, parents):
        if f"{type(value).__module__}.{type(value).__name__}" != "collections.defaultdict" or id(value) in parents:
            return None
        factory = self.text(value.default_factory, indent, (*parents, id(value)))
        return f"defaultdict({factory}, {self.text(dict(value), indent, (*parents, id(value)))})"


def _named(value):
    """Classes and functions, whose place in memory says nothing, by name; others are None."""
    kind = type(value)
    if kind is type:  # a metaclass may have a repr of its own
        return _qualified(value)
    if kind is not FunctionType:
        return None
    try:
        from inspect import signature

        return f"<function {_qualified(value)}{signature(value)}>"
    except Exception:  # a default whose repr fails, for one
        return None


def _qualified(value):
    module = value.__module__
    return value.__qualname__ if module in (None, "builtins") else f"{module}.{value.__qualname__}"


def _in_order(value):
    """Sets are shown sorted where they can be, so that the same set always looks the same."""
    if type(value) in (set, frozenset) and len(value) <= limits.MAX_PRETTY_ITEMS:
        try:
            return sorted(value)
        except Exception:
            return value
    return value


def _join(value, brackets, parts, indent):
    if type(value) is tuple and len(value) == 1:
        return f"({parts[0]},)"
    size = sum(len(part) + 2 for part in parts) + indent
    if size <= limits.PRETTY_WIDTH and not any("\n" in part for part in parts):
        return brackets[0] + ", ".join(parts) + brackets[1]
    pad = "\n" + " " * indent
    if type(value) is dict or any("\n" in part or len(part) > 30 for part in parts):
        return brackets[0] + ("," + pad).join(parts) + brackets[1]
    return brackets[0] + _fill(parts, pad, limits.PRETTY_WIDTH - indent) + brackets[1]


def _fill(parts, pad, width):
    """Fills lines with short items."""
    lines, line = [], ""
    for part in parts:
        if line and len(line) + len(part) + 2 > width:
            lines.append(line)
            line = ""
        line += part + ", "
    lines.append(line)
    return pad.join(text.rstrip() for text in lines)[:-1]


def safe_repr(value, inspect):
    """Returns repr(value), or a text that says why there is none."""
    try:
        if isinstance(value, (str, bytes, bytearray)) and len(value) > 2 * limits.MAX_TEXT:
            return _cut_before_repr(value)
        if hasattr(type(value), "_repr_pretty_") and "IPython.lib.pretty" in sys.modules:
            return sys.modules["IPython.lib.pretty"].pretty(value)
        text = repr(value)
        return text if type(text) is str else str.__str__(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        inspect(error)
        try:
            reason = cut(str(error), 1000)
        except BaseException:
            reason = ""
        return f"<{type(value).__name__} object: its repr() raised {type(error).__name__}: {reason}>"


def _cut_before_repr(value):
    """A string of gigabytes must not be copied to show its ends."""
    half = limits.MAX_TEXT // 4
    return f"{value[:half]!r}\n… {len(value) - 2 * half:,} characters cut …\n{value[-half:]!r}"
