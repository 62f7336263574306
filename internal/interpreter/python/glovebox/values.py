# SPDX-License-Identifier: Apache-2.0
"""Variables that the caller asked for by name."""

from glovebox import bundle as bundles
from glovebox import channel as wire
from glovebox import limits
from glovebox.session import generous

_MISSING = object()


def send(session, names):
    """Sends one VALUE frame for each name that is there, and a notice for each that is not."""
    for name in names:
        value = session.module.__dict__.get(name, _MISSING)
        if value is _MISSING:
            session.notice("value.missing", f"There is no variable {str(name)[:100]!r} to return.")
            continue
        with generous():
            _bundle(session, value).send(session, wire.VALUE, name=name)


def _bundle(session, value):
    bundle = bundles.of(session, value)
    if is_plain(value) or (_is_numpy(value) and value.size < limits.MAX_JSON_ITEMS):
        bundle.add_json("application/json", value)  # not add(): a tuple is no form with metadata here
    return bundle


def is_plain(value, depth=0, budget=None):
    """Tells whether a value is made of JSON's own types, and small enough to be sent whole."""
    budget = [limits.MAX_JSON_ITEMS] if budget is None else budget
    budget[0] -= 1
    if budget[0] <= 0 or depth > limits.MAX_JSON_DEPTH:
        return False
    if value is None or type(value) in (bool, float):
        return True
    if type(value) is int:
        return value.bit_length() <= limits.MAX_JSON_INT_BITS
    if type(value) is str:
        return len(value) <= limits.MAX_JSON_FORM
    if type(value) in (list, tuple):
        return all(is_plain(item, depth + 1, budget) for item in value)
    if type(value) is dict:
        return all(type(key) is str and is_plain(item, depth + 1, budget) for key, item in value.items())
    if _is_numpy(value) and value.dtype.kind in "biufU":  # what calculations leave in lists and dicts
        budget[0] -= value.size
        return budget[0] > 0
    return False


def _is_numpy(value):
    return type(value).__module__ == "numpy" and hasattr(value, "dtype") and hasattr(value, "size")
