# SPDX-License-Identifier: Apache-2.0
"""Turns any Python value into one that JSON can carry."""

import math

from glovebox import limits


def clean(value, depth=0, budget=None):
    """Returns value with everything JSON lacks replaced: NaN and infinities by None, bytes and objects by text."""
    if budget is None:
        budget = [limits.MAX_JSON_ITEMS]
    budget[0] -= 1
    if value is None or value is True or value is False:
        return value
    kind = type(value)
    if kind is str:
        return value
    if kind is int:
        return value if value.bit_length() <= limits.MAX_JSON_INT_BITS else _text(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if depth >= limits.MAX_JSON_DEPTH or budget[0] <= 0:
        return "…"
    if isinstance(value, dict):
        return {_key(key): clean(item, depth + 1, budget) for key, item in list(value.items())}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(item, depth + 1, budget) for item in value]
    return _other(value, depth, budget)


def _key(key):
    return key if type(key) is str else _text(key)


def _other(value, depth, budget):
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[: limits.MAX_TEXT]).decode("utf-8", "backslashreplace")
    if isinstance(value, bool) or hasattr(value, "tolist"):  # numpy scalars and arrays
        try:
            plain = value.tolist()
        except Exception:
            return _text(value)
        return clean(plain, depth + 1, budget) if type(plain) is not type(value) else _text(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return clean(int(value), depth, budget)
    if isinstance(value, float):
        return clean(float(value), depth, budget)
    return _text(value)


def _text(value):
    try:
        text = str(value)
    except Exception as error:
        return f"<{type(value).__name__}: str() raised {type(error).__name__}>"
    return text[: limits.MAX_TEXT]
