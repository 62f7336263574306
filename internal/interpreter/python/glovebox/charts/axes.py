# SPDX-License-Identifier: Apache-2.0
"""Axes of a matplotlib chart as data; numbers are turned back into the dates or names that they stand for."""

import re

from glovebox import limits
from glovebox.charts import values

_UNIT = re.compile(r"[(\[（【]([^()\[\]（）【】]{1,40})[)\]）】]\s*$")

_POWER = re.compile(r"\$\\mathdefault\{(-?\d+)\^\{(-?\d+)\}\}\$")  # how a logarithmic axis writes 10^3


def describe(ax, which):
    """Returns one axis: which is "x" or "y"."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    label = axis.get_label_text()[:1000]
    low, high = axis.get_view_interval()
    named = bool(_names(axis) or _fixed_labels(axis))
    return {
        "axis": which,
        "label": label,
        "unit": unit(label),
        "scale": "category" if named else "date" if _is_date(axis) else axis.get_scale(),
        "limits": [values.one(value) for value in plain(axis, [low, high])] if not named else None,
        "ticks": _ticks(ax, axis),
    }


def unit(label):
    """Returns the unit in a label such as "Revenue (USD)", or None."""
    found = _UNIT.search(label)
    return found.group(1) if found else None


def twin_side(main, twin):
    """Returns which axis a twin adds: twinx() shares x and brings a y axis of its own."""
    return "y" if main.get_shared_x_axes().joined(main, twin) else "x"


def _ticks(ax, axis):
    low, high = sorted(axis.get_view_interval())
    ticks = [tick.label1.get_text() for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    if not any(ticks):
        ticks = axis.get_major_formatter().format_ticks([at for at in axis.get_majorticklocs() if low <= at <= high])
    return [_POWER.sub(r"\1^\2", text)[:200] for text in ticks[: limits.CHART_MAX_TICKS]]


def plain(axis, numbers):
    """Returns values as they were given: dates for the numbers of a date axis, names for those of categories."""
    if len(numbers) and isinstance(numbers[0], str):
        return numbers
    names = _names(axis) or _fixed_labels(axis)
    if names and all(_is_number(number) and number in names for number in numbers):
        return [names[number] for number in numbers]
    if _is_date(axis) and len(numbers) and _is_number(numbers[0]):
        from matplotlib import dates

        return dates.num2date(numbers)
    return numbers


def categories(axis, centres):
    """Returns the names under bars: of a category axis, or the fixed labels that pandas and many scripts set."""
    names = _names(axis) or _fixed_labels(axis)
    if names:
        # A grouped bar stands beside its tick: the nearest tick is its name.
        nearest = [min(names, key=lambda at: abs(at - centre)) for centre in centres]
        if all(abs(at - centre) < 0.5 for at, centre in zip(nearest, centres, strict=True)):
            return [names[at] for at in nearest]
    return plain(axis, centres)


def is_histogram(axis, edges):
    """Bars that touch along an axis of numbers are bins."""
    if len(edges) < 2 or _names(axis) or _fixed_labels(axis):
        return False
    span = abs(edges[-1][0] + edges[-1][1] - edges[0][0]) or 1
    return all(abs(a + width - b) < 1e-6 * span for (a, width), (b, _) in zip(edges, edges[1:], strict=False))


def _is_number(value):
    return isinstance(value, (int, float)) or hasattr(value, "dtype") and value.dtype.kind in "fiu"


def _is_date(axis):
    return "Date" in type(axis.get_converter()).__name__ or "Date" in type(axis.get_major_formatter()).__name__


def _names(axis):
    """Returns {place: name} of an axis of categories."""
    mapping = getattr(axis.units, "_mapping", None)
    return {place: str(name)[:200] for name, place in mapping.items()} if mapping else {}


def _fixed_labels(axis):
    formatter = axis.get_major_formatter()
    # set_xticklabels() makes a FuncFormatter on a method of the axis; other functions write numbers, not names.
    function = getattr(getattr(formatter, "func", None), "func", None)
    if type(formatter).__name__ != "FixedFormatter" and getattr(function, "__name__", "") != "_format_with_dict":
        return {}
    places, labels = axis.get_majorticklocs(), axis.get_ticklabels()
    names = {float(at): label.get_text()[:200] for at, label in zip(places, labels, strict=False)}
    return names if any(names.values()) else {}
