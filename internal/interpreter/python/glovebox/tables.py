# SPDX-License-Identifier: Apache-2.0
"""Tables of pandas and polars: shape, types, first and last rows, never all of a million."""

import math

from glovebox import limits
from glovebox.cutting import cut
from glovebox.jsonsafe import clean

MIME = "application/vnd.glovebox.table+json"


def pandas_frame(session, bundle, frame):
    rows, columns = frame.shape
    text, html, shown = _pandas_forms(frame, _rows_to_show(rows, columns))
    bundle.add("text/plain", text + "\n\n" + _summary(rows, columns, _pandas_columns(frame)))
    if html is not None:
        bundle.add("text/html", html)
    bundle.add(MIME, _pandas_table(frame, "DataFrame", shown))


def pandas_series(session, bundle, series):
    pandas_frame(session, bundle, series.to_frame())
    rows = len(series)
    text = _pandas_text(series, _rows_to_show(rows, 1))
    name = f"Name: {_label(series.name)}, " if series.name is not None else ""
    bundle.add("text/plain", f"{text}\n{name}Length: {rows:,}, dtype: {series.dtype}")
    bundle.data[MIME]["kind"] = "Series"


def pandas_styler(session, bundle, styler):
    pandas_frame(session, bundle, styler.data)
    bundle.data.pop("text/html", None)
    bundle.add("text/html", styler._repr_html_() or styler.to_html())


def _rows_to_show(rows, columns):
    """Returns how many rows to show: all of a small table, else head and tail of a large one."""
    columns = max(1, min(columns, limits.TABLE_MAX_COLUMNS))
    if rows <= limits.TABLE_WHOLE_ROWS and rows * columns <= limits.TABLE_WHOLE_CELLS:
        return rows
    return min(rows, limits.TABLE_HEAD_ROWS + limits.TABLE_TAIL_ROWS, max(4, limits.TABLE_MAX_CELLS // columns))


def _pandas_forms(frame, shown):
    """Returns text, HTML and the rows they show: fewer rows, then fewer columns where cells are long."""
    columns = limits.TABLE_MAX_COLUMNS
    while True:
        text = _pandas_text(frame, shown, max_cols=columns)
        html = _pandas_html(frame, shown, columns)
        if len(text) <= limits.TABLE_MAX_FORM and len(html) <= limits.TABLE_MAX_FORM:
            return text, html, shown
        if shown > 4:
            shown = max(4, shown // 2)
        elif columns > 8:
            columns //= 2
        else:
            return text, None, shown


def _pandas_text(table, shown, **options):
    import pandas

    with pandas.option_context("display.max_colwidth", limits.TABLE_MAX_CELL, "display.width", None):
        return table.to_string(max_rows=shown, **options)


def _pandas_html(frame, shown, columns):
    import pandas

    with pandas.option_context("display.max_colwidth", limits.TABLE_MAX_CELL):
        return frame.to_html(max_rows=shown, max_cols=columns, border=0, notebook=True)


def _pandas_columns(frame):
    shown = frame.columns[: limits.TABLE_MAX_COLUMNS]
    return [(_label(name), str(dtype)) for name, dtype in zip(shown, frame.dtypes.iloc[: len(shown)], strict=True)]


def _summary(rows, columns, known):
    """A line that names every column, because the rows above it may leave some out."""
    names = ", ".join(f"{name} {dtype}" for name, dtype in known)
    more = f", and {columns - len(known):,} more" if columns > len(known) else ""
    return f"[{rows:,} rows x {columns:,} columns{': ' if names else ''}{names}{more}]"


def _pandas_table(frame, kind, shown):
    rows, columns = frame.shape
    known = _pandas_columns(frame)
    head = shown if shown >= rows else min(shown - shown // 3, rows)
    tail = 0 if shown >= rows else min(shown // 3, rows - head)
    cut_frame = frame.iloc[:, : len(known)]
    names = (
        [_label(name) for name in frame.index.names] if any(name is not None for name in frame.index.names) else None
    )
    return {
        "kind": kind,
        "shape": [rows, columns],
        "columns": [name for name, _ in known],
        "dtypes": [dtype for _, dtype in known],
        "columns_left_out": columns - len(known),
        "index": {"names": names, "dtype": str(frame.index.dtype)},
        "head": _pandas_rows(cut_frame.iloc[:head]),
        "tail": _pandas_rows(cut_frame.iloc[rows - tail :]) if tail else {"index": [], "rows": []},
    }


def _pandas_rows(part):
    columns = [[_cell(value) for value in part.iloc[:, number].tolist()] for number in range(part.shape[1])]
    return {
        "index": [_cell(value) for value in part.index.tolist()],
        "rows": [list(row) for row in zip(*columns, strict=True)],
    }


def polars_frame(session, bundle, frame):
    rows, columns = frame.shape
    known = [(_label(name), str(dtype)) for name, dtype in list(frame.schema.items())[: limits.TABLE_MAX_COLUMNS]]
    bundle.add("text/plain", cut(str(frame), limits.MAX_TEXT // 2) + "\n" + _summary(rows, columns, known))
    html = frame._repr_html_()
    if len(html) <= limits.TABLE_MAX_FORM:
        bundle.add("text/html", html)
    shown = _rows_to_show(rows, columns)
    head = shown if shown >= rows else shown - shown // 3
    part = frame.select(frame.columns[: len(known)])
    bundle.add(
        MIME,
        {
            "kind": "DataFrame",
            "shape": [rows, columns],
            "columns": [name for name, _ in known],
            "dtypes": [dtype for _, dtype in known],
            "columns_left_out": columns - len(known),
            "index": None,
            "head": _polars_rows(part.head(head)),
            "tail": _polars_rows(part.tail(min(shown - head, rows - head))),
        },
    )


def polars_series(session, bundle, series):
    polars_frame(session, bundle, series.to_frame())
    bundle.add("text/plain", cut(str(series), limits.MAX_TEXT // 2))
    bundle.data[MIME]["kind"] = "Series"


def _polars_rows(part):
    return {"index": [], "rows": [[_cell(value) for value in row] for row in part.rows()]}


def _label(value):
    """A column's name as text; the parts of a name on several levels are kept apart."""
    text = " / ".join(str(part) for part in value) if isinstance(value, tuple) else str(value)
    return cut(text, limits.TABLE_MAX_LABEL)


def _cell(value):
    """One cell as JSON: missing values of every kind are null, long texts are cut."""
    if value is None:
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return cut(value, limits.TABLE_MAX_CELL)
    if isinstance(value, (bool, int)):
        return clean(value)
    if type(value).__name__ in ("NaTType", "NAType"):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, tuple):
        return _label(value)
    if isinstance(value, (list, dict, set, bytes)):
        return (
            cut(str(value), limits.TABLE_MAX_CELL)
            if len(value) < 1000
            else f"<{type(value).__name__} of {len(value):,}>"
        )
    return cut(str(value), limits.TABLE_MAX_CELL)
