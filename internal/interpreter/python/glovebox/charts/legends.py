# SPDX-License-Identifier: Apache-2.0
"""Names from a legend, matched to series by colour: seaborn labels the legend and not the artists."""

from glovebox import limits


def texts(group):
    """Returns the legend's texts: of the first of some axes that has one."""
    for ax in group:
        legend = ax.get_legend()
        if legend is not None:
            return [text.get_text()[:200] for text in legend.get_texts()[: limits.CHART_MAX_SERIES]]
    return []


def key(color):
    """Returns a colour in a form that can be compared, or None."""
    from matplotlib import colors

    try:
        return tuple(round(part, 2) for part in colors.to_rgb(color))
    except (TypeError, ValueError):
        return None


def names(ax):
    """Returns {colour: name} of the legend of some axes; a colour that stands for two names stands for none."""
    legend = ax.get_legend()
    if legend is None:
        return {}
    found = {}
    for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=False):
        color = key(_color(handle))
        if color is not None:
            found[color] = None if color in found else text.get_text()[:200]
    return {color: name for color, name in found.items() if name}


def _color(handle):
    for getter in ("get_markerfacecolor", "get_facecolor", "get_color"):
        method = getattr(handle, getter, None)
        color = method() if method is not None else None
        if color is not None and not isinstance(color, str) and getattr(color, "ndim", 1) == 2:
            color = color[0] if len(color) else None  # a collection has a list of colours
        if color is not None and not (isinstance(color, str) and color.lower() == "none"):
            return color
    return None


def named(item, by_color):
    """Returns a series with its name from the legend when it has none of its own, and without its colour."""
    color = item.pop("color", None)
    if item["name"] is None and by_color and color is not None:
        item["name"] = by_color.get(key(color))
    return item
