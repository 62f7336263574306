# SPDX-License-Identifier: Apache-2.0
"""What a matplotlib figure says, as data: titles, axes, units and series.

Read from the artists of a finished figure, so it also covers pandas and seaborn. Box
and pie plots leave nothing from which their numbers can be read, so these two calls
are noted when they are made. What is not recognised is left out, never guessed.
"""

import functools

from glovebox import faults, limits
from glovebox.charts import axes, legends, values


def describe_safely(session, figure):
    """Returns the data of a figure; what cannot be read makes the chart "unknown", never an error."""
    try:
        return describe(figure)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if error is session.channel.from_signal:
            raise
        return {"type": "unknown", "title": "", "axes": [], "series": [], "legend": []}


def titled(data):
    return f" {data['title'][:200]!r}" if data["title"] else ""


def describe(figure):
    """Returns one chart, or a grid of charts when the figure has several."""
    charts = [_chart(group) for group in _groups(figure)[: limits.CHART_MAX_AXES]]
    overall = figure.get_suptitle()
    if len(charts) == 1:
        charts[0]["title"] = charts[0]["title"] or overall
        return charts[0]
    if not charts:
        return {"type": "unknown", "title": overall, "axes": [], "series": [], "legend": []}
    return {"type": "grid", "title": overall, "axes": [], "series": [], "legend": [], "charts": charts}


def _groups(figure):
    """Returns the axes of a figure; twins that share a place belong to one chart, colour bars to none."""
    groups = []
    for ax in figure.axes:
        if hasattr(ax, "_colorbar") or ax.get_label() == "<colorbar>" or not ax.get_visible():
            continue
        for group in groups:
            if ax._twinned_axes.joined(ax, group[0]):
                group.append(ax)
                break
        else:
            groups.append([ax])
    return groups


def _chart(group):
    main = group[0]
    title = next((ax.get_title(loc) for ax in group for loc in ("center", "left", "right") if ax.get_title(loc)), "")
    found, described = [], []
    for number, ax in enumerate(group):
        mine = _series(ax)
        for item in mine if number else ():
            item["axis"] = len(described)  # its place in "axes"
        found += mine
        described += (
            [axes.describe(ax, "x"), axes.describe(ax, "y")]
            if ax is main
            else [axes.describe(ax, axes.twin_side(main, ax))]
        )
    kinds = {item["type"] for item in found}
    kinds = kinds - {"area"} or kinds  # the band around a line is no chart of its own
    return {
        "type": kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "unknown",
        "title": title,
        "axes": described if "pie" not in {item["type"] for item in found} else [],
        "series": found[: limits.CHART_MAX_SERIES],
        "series_left_out": max(0, len(found) - limits.CHART_MAX_SERIES),
        "legend": legends.texts(group),
        **_stacking(found),
    }


def _stacking(found):
    bars = [item for item in found if item["type"] == "bar"]
    if len(bars) < 2:
        return {}
    return {"stacked": any(any(base or 0 for base in item.get("base", ())) for item in bars[1:])}


# The series of one pair of axes.


def _series(ax):
    # What ax.clear() removed has lost its axes.
    noted = [
        (item, artists) for item, artists in getattr(ax, "_glovebox_noted", ()) if artists and artists[0].axes is ax
    ]
    found = [_placed(ax, item) for item, _ in noted]
    done = {id(artist) for _, artists in noted for artist in artists}
    for container in ax.containers:
        kind = type(container).__name__
        if kind == "BarContainer" and len(container):
            found.append(_bars(ax, container))
        elif kind == "ErrorbarContainer":
            done.update(id(line) for line in container.lines[1] or ())
            if container.lines[0] is not None and _name(container):
                found.append(_line(ax, container.lines[0], _name(container)))
                done.add(id(container.lines[0]))
    barred = any(item["type"] == "bar" for item in found)
    banded = any(type(collection).__name__ == "FillBetweenPolyCollection" for collection in ax.collections)
    spread = 2 if barred else 1 if banded else 0
    found += [_line(ax, line) for line in ax.lines if id(line) not in done and _is_data(ax, line, spread)]
    names = legends.names(ax)
    for collection in ax.collections:
        kind = type(collection).__name__
        if kind == "PathCollection" and len(collection.get_offsets()):
            found += _points(ax, collection, names)
        elif kind == "QuadMesh":
            found.append(_grid(collection))
        elif kind in ("FillBetweenPolyCollection", "PolyCollection"):
            found.append({"name": _name(collection), "type": "area"})
    found += [_grid(image) for image in ax.images]
    return [legends.named(item, names) for item in found]


def _placed(ax, item):
    """Gives the boxes of a noted box plot the names of the places where they stand."""
    item = dict(item)
    places = item.pop("places", None)
    if places is not None and not any(box["label"] for box in item["boxes"]):
        labels = axes.categories(ax.xaxis if item["orientation"] == "vertical" else ax.yaxis, places)
        item["boxes"] = [{**box, "label": values.one(label)} for box, label in zip(item["boxes"], labels, strict=False)]
    return item


def _is_data(ax, line, spread):
    """A line in the axes' own coordinates (axhline and the like) is decoration. So are the error bars on bars and
    the boxes in violins: short lines without a name, whose x or y takes no more than `spread` values."""
    if line.get_transform() != ax.transData:
        return False
    x, y = line.get_data()
    if _name(line) is None and len(x) <= 6:
        different = [len({str(value) for value in numbers}) for numbers in (x, y)]
        if min(different) <= spread:
            return False
    return len(x) > 0


def _name(artist):
    label = str(artist.get_label())
    return None if label.startswith("_") else label[:200]


def _line(ax, line, name=None):
    x, y = line.get_xdata(orig=True), line.get_ydata(orig=True)
    kind = "scatter" if line.get_linestyle() in ("None", "", " ") else "line"
    found = values.points(axes.plain(ax.xaxis, x), axes.plain(ax.yaxis, y))
    return {"name": name or _name(line), "type": kind, "color": line.get_color(), **found}


def _points(ax, collection, names):
    """The points of a scatter plot, split by colour where the legend names the colours, as seaborn draws them."""
    offsets, colors = collection.get_offsets(), collection.get_facecolors()
    x, y = axes.plain(ax.xaxis, offsets[:, 0]), axes.plain(ax.yaxis, offsets[:, 1])
    if names and len(colors) == len(offsets) > 1:
        groups = {}
        for number, color in enumerate(colors):
            groups.setdefault(legends.key(color), []).append(number)
        if len(groups) > 1 and all(group in names for group in groups):
            return [
                {"name": names[group], "type": "scatter", **values.points([x[i] for i in rows], [y[i] for i in rows])}
                for group, rows in groups.items()
            ]
    color = colors[0] if len(colors) else None
    return [{"name": _name(collection), "type": "scatter", "color": color, **values.points(x, y)}]


def _bars(ax, container):
    upright = getattr(container, "orientation", "vertical") != "horizontal"
    along, across = (ax.xaxis, ax.yaxis) if upright else (ax.yaxis, ax.xaxis)
    edges = [
        (bar.get_x(), bar.get_width()) if upright else (bar.get_y(), bar.get_height()) for bar in container.patches
    ]
    base = [bar.get_y() if upright else bar.get_x() for bar in container.patches]
    sizes = [bar.get_height() if upright else bar.get_width() for bar in container.patches]
    item = {
        "name": _name(container),
        "type": "bar",
        "orientation": "vertical" if upright else "horizontal",
        "color": container.patches[0].get_facecolor(),
    }
    if axes.is_histogram(along, edges):
        item["type"] = "hist"
        item["bins"] = values.bounded([start for start, _ in edges] + [edges[-1][0] + edges[-1][1]])
        item["counts"] = values.bounded(sizes)
        return item
    places = axes.categories(along, [start + width / 2 for start, width in edges])
    found = values.points(places, axes.plain(across, sizes))
    item.update(found if upright else {**found, "x": found["y"], "y": found["x"]})
    if any(base):
        item["base"] = values.bounded(base)
    return item


def _grid(mappable):
    array = mappable.get_array()
    shape = list(getattr(array, "shape", ()))
    item = {"name": _name(mappable), "type": "heatmap", "shape": shape}
    if len(shape) == 2 and array.size <= limits.CHART_MAX_POINTS:
        item["values"] = [values.bounded(row) for row in array]
    return item


# Calls that are noted.


def patch_axes(cls):
    """Notes the numbers of box and pie plots on their axes."""
    cls.bxp, cls.pie = _hidden(_noting_boxes(cls.bxp)), _hidden(_noting_pie(cls.pie))


def _hidden(function):
    """Lets matplotlib take our function for its own, or its warnings would name our file and not the caller's."""
    import matplotlib

    folder = matplotlib.__file__.rpartition("/")[0]
    function.__code__ = function.__code__.replace(co_filename=folder + faults.HIDDEN)
    return function


def _note(ax, item, artists):
    if not hasattr(ax, "_glovebox_noted"):
        ax._glovebox_noted = []
    ax._glovebox_noted.append((item, artists))


def _noting_boxes(plain):
    @functools.wraps(plain)
    def bxp(self, bxpstats, *args, **options):
        bxpstats = list(bxpstats)
        drawn = plain(self, bxpstats, *args, **options)
        boxes = [
            {
                "label": str(box.get("label", ""))[:200],
                **{name: values.one(box.get(key)) for name, key in _BOX_PARTS},
                "outliers": values.bounded(box.get("fliers", ())),
            }
            for box in bxpstats[: limits.CHART_MAX_TICKS]
        ]
        places = options.get("positions", args[0] if args else None)
        across = options.get("vert") is False or options.get("orientation") == "horizontal"
        item = {"name": None, "type": "box", "orientation": "horizontal" if across else "vertical", "boxes": boxes}
        item["places"] = list(places)[: len(boxes)] if places is not None else list(range(1, len(boxes) + 1))
        if drawn.get("boxes") and hasattr(drawn["boxes"][0], "get_facecolor"):
            item["color"] = drawn["boxes"][0].get_facecolor()
        _note(self, item, [artist for group in drawn.values() for artist in group])
        return drawn

    return bxp


_BOX_PARTS = (("min", "whislo"), ("q1", "q1"), ("median", "med"), ("q3", "q3"), ("max", "whishi"), ("mean", "mean"))


def _noting_pie(plain):
    @functools.wraps(plain)
    def pie(self, x, *args, **options):
        drawn = plain(self, x, *args, **options)
        labels = options.get("labels", args[1] if len(args) > 1 else None)
        data = options.get("data")
        if data is not None:
            x = data[x] if isinstance(x, str) else x
            labels = data[labels] if isinstance(labels, str) else labels
        sizes = values.bounded(x)
        names = [str(label)[:200] for label in labels][: len(sizes)] if labels is not None else [None] * len(sizes)
        _note(self, {"name": None, "type": "pie", "labels": names, "values": sizes}, list(drawn[0]))
        return drawn

    return pie
