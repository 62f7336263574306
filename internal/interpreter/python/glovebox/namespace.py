# SPDX-License-Identifier: Apache-2.0
"""The module __main__ of user code, and what a cell finds in it."""

import builtins
import json
import os
import sys
from keyword import iskeyword
from types import ModuleType

from glovebox import display

# Names that are there without an import, as analysts write them.
ALIASES = {"pd": "pandas", "np": "numpy", "plt": "matplotlib.pyplot", "sns": "seaborn"}


def new_main():
    """Makes the module __main__ that user code lives in; pickle and multiprocessing find its classes there."""
    module = ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    return module


def read_cell(payload):
    """Returns the cell of a frame as a dict, with every field a cell must have."""
    try:
        cell = json.loads(payload)
    except ValueError:  # an int of too many digits, for one
        cell = json.loads(payload, parse_int=_parse_int)
    cell["name"] = cell.get("name") or "main.py"
    return cell


def _parse_int(text):
    try:
        return int(text)
    except ValueError:
        return float(text)


def prepare(session, cell):
    """Sets the variables and the script's name before a cell runs."""
    names = session.module.__dict__
    sys.argv = [cell["name"]]
    if cell.get("last"):
        names["__file__"] = os.path.join(session.folder, cell["name"])
    for name, value in (cell.get("inputs") or {}).items():
        if name.isidentifier() and not iskeyword(name) and not name.startswith("__"):
            names[name] = value
        else:
            session.notice("input.bad_name", f"The input {name[:100]!r} was left out: this is no name of a variable.")


def bind_aliases(names, source, tree):
    """Imports what pd, np, plt and sns stand for, when a cell reads such a name and nobody has set it.

    Done before the cell runs: a proxy object would be seen by user code, and a
    namespace with a __missing__ would slow every global look-up down.
    """
    wanted = [alias for alias in (*ALIASES, "get_ipython") if alias in source and alias not in names]
    if not wanted:
        return
    read, bound = _names_of(tree)
    for alias in wanted:
        if alias not in read or alias in bound:
            continue
        if alias == "get_ipython":
            names[alias] = display.get_ipython
        else:
            try:
                __import__(ALIASES[alias])
            except ImportError:
                continue  # the cell's own NameError says enough
            names[alias] = sys.modules[ALIASES[alias]]


def _names_of(tree):
    """Returns the names that a tree reads, and those it sets or imports anywhere."""
    from _ast import AST, Load, Name, alias, arg

    read, bound = set(), set()
    todo = [tree]
    while todo:
        node = todo.pop()
        kind = type(node)
        if kind is Name:
            (read if type(node.ctx) is Load else bound).add(node.id)
        elif kind is alias:
            bound.add(node.asname or node.name.partition(".")[0])
        elif kind is arg:
            bound.add(node.arg)
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                todo.extend(item for item in value if isinstance(item, AST))
            elif isinstance(value, AST):
                todo.append(value)
    return read, bound
