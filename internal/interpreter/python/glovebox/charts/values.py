# SPDX-License-Identifier: Apache-2.0
"""Numbers of a chart as bounded JSON."""

import math

from glovebox import limits
from glovebox.jsonsafe import clean


def one(value):
    """Returns one value as JSON: numbers and texts as they are, dates as ISO text, what is missing as null."""
    if hasattr(value, "mask") and getattr(value, "mask", False) is not False and bool(value.mask):
        return None
    if hasattr(value, "isoformat") or type(value).__name__ == "datetime64":
        return _moment(value)
    if hasattr(value, "item") and not isinstance(value, (list, tuple)):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value[:200]
    return clean(value)


def _moment(value):
    """Returns a date or time as short as it can be: matplotlib's own dates carry a zone and empty fractions."""
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    if text == "NaT":
        return None
    text = text.removesuffix("+00:00")
    start, point, fraction = text.partition(".")
    text = start if point and not fraction.strip("0") else text
    return text.removesuffix("T00:00:00")


def sample(count):
    """Returns which of count points are kept: all, or evenly spread ones with both ends."""
    if count <= limits.CHART_MAX_POINTS:
        return range(count)
    step = (count - 1) / (limits.CHART_MAX_POINTS - 1)
    return [round(number * step) for number in range(limits.CHART_MAX_POINTS)]


def bounded(sequence):
    """Returns a sequence as a bounded list."""
    items = _indexable(sequence)
    return [one(items[number]) for number in sample(len(items))]


def points(x, y):
    """Returns {"x", "y"}, and "points" with the true count when some were left out."""
    x, y = _indexable(x), _indexable(y)
    count = min(len(x), len(y))
    kept = sample(count)
    found = {"x": [one(x[number]) for number in kept], "y": [one(y[number]) for number in kept]}
    if len(kept) < count:
        found["points"] = count
    return found


def _indexable(sequence):
    if hasattr(sequence, "to_numpy"):
        return sequence.to_numpy()
    return sequence if hasattr(sequence, "__getitem__") and not isinstance(sequence, dict) else list(sequence)
