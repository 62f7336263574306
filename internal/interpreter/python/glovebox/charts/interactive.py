# SPDX-License-Identifier: Apache-2.0
"""What plotly and Vega-Lite charts say, as data."""

from glovebox import limits
from glovebox.charts import axes, values

_PLOTLY_KINDS = {
    "scatter": "scatter",
    "scattergl": "scatter",
    "bar": "bar",
    "histogram": "hist",
    "box": "box",
    "pie": "pie",
    "heatmap": "heatmap",
}


def plotly(figure):
    """Returns the data of a plotly figure."""
    series = [_trace(trace) for trace in figure.data[: limits.CHART_MAX_SERIES]]
    layout = figure.layout
    return {
        "type": _overall(series),
        "title": layout.title.text or "",
        "axes": [_plotly_axis(which, layout[which + "axis"], series) for which in "xy"]
        if _overall(series) != "pie"
        else [],
        "series": series,
        "series_left_out": max(0, len(figure.data) - limits.CHART_MAX_SERIES),
        "legend": [item["name"] for item in series if item["name"]],
    }


def _trace(trace):
    kind = _PLOTLY_KINDS.get(trace.type, "unknown")
    if kind == "scatter" and "lines" in (getattr(trace, "mode", None) or "lines"):
        kind = "line"
    item = {"name": trace.name, "type": kind}
    if kind == "pie":
        return {**item, "labels": _list(trace, "labels"), "values": _list(trace, "values")}
    x, y = getattr(trace, "x", None), getattr(trace, "y", None)
    if x is not None and y is not None and kind not in ("heatmap", "box"):
        return {**item, **values.points(x, y)}
    return {**item, "x": _list(trace, "x"), "y": _list(trace, "y")}


def _list(trace, name):
    found = getattr(trace, name, None)
    return values.bounded(found) if found is not None else []


def _plotly_axis(which, axis, series):
    label = (axis.title.text or "")[:1000]
    limit = [values.one(value) for value in axis.range] if axis.range else None
    named = any(
        isinstance(value, str) and not value[:4].isdigit() for item in series for value in item.get(which, ())[:1]
    )
    scale = axis.type or ("category" if named else "linear")
    return {"axis": which, "label": label, "unit": axes.unit(label), "scale": scale, "limits": limit, "ticks": []}


def _overall(series):
    kinds = {item["type"] for item in series}
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "unknown"


_MARKS = {
    "line": "line",
    "point": "scatter",
    "circle": "scatter",
    "square": "scatter",
    "bar": "bar",
    "boxplot": "box",
    "arc": "pie",
    "area": "area",
    "rect": "heatmap",
}


def vegalite(spec):
    """Returns the data of a Vega-Lite specification; a layered chart is read layer by layer."""
    layers = spec.get("layer") or [spec]
    series, first = [], {}
    for layer in layers[: limits.CHART_MAX_SERIES]:
        encoding = {**spec.get("encoding", {}), **layer.get("encoding", {})}
        first = first or encoding
        series += _layer(spec, layer, encoding)
    title = spec.get("title", "")
    return {
        "type": _overall(series),
        "title": str(title.get("text", "") if isinstance(title, dict) else title),
        "axes": [_vega_axis(which, first.get(which, {})) for which in ("x", "y") if which in first],
        "series": series[: limits.CHART_MAX_SERIES],
        "series_left_out": max(0, len(series) - limits.CHART_MAX_SERIES),
        "legend": [item["name"] for item in series if item["name"]],
    }


def _layer(spec, layer, encoding):
    mark = layer.get("mark", "")
    kind = _MARKS.get(mark.get("type", "") if isinstance(mark, dict) else mark, "unknown")
    data = layer.get("data") or spec.get("data") or {}
    rows = data.get("values") or (spec.get("datasets") or {}).get(data.get("name"), [])
    if not isinstance(rows, list):
        rows = []
    groups = {}
    split = encoding.get("color", {}).get("field")
    for row in rows:
        groups.setdefault(row.get(split) if split else None, []).append(row)
    return [_group(kind, encoding, name, members) for name, members in groups.items()] or [
        {"name": None, "type": kind, "x": [], "y": []}
    ]


def _group(kind, encoding, name, rows):
    item = {"name": None if name is None else str(name)[:200], "type": kind}
    x, y = (encoding.get(which, {}).get("field") for which in ("x", "y"))
    if kind == "pie":
        size = encoding.get("theta", {}).get("field")
        return {**item, "labels": [item["name"]], "values": values.bounded([row.get(size) for row in rows])}
    if any("aggregate" in encoding.get(which, {}) or encoding.get(which, {}).get("bin") for which in ("x", "y")):
        item["aggregated"] = True  # the rows below are what is aggregated, not what is drawn
    return {**item, **values.points([row.get(x) for row in rows], [row.get(y) for row in rows])}


def _vega_axis(which, channel):
    field, aggregate = channel.get("field") or "", channel.get("aggregate") or ""
    shown = f"{aggregate} of {field}" if aggregate and field else field or aggregate
    title = channel.get("title") or (channel.get("axis") or {}).get("title") or shown
    scale = (channel.get("scale") or {}).get("type") or {
        "nominal": "category",
        "ordinal": "category",
        "temporal": "date",
    }.get(channel.get("type"), "linear")
    return {
        "axis": which,
        "label": str(title)[:1000],
        "unit": axes.unit(str(title)),
        "scale": scale,
        "limits": None,
        "ticks": [],
    }
