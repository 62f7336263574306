# SPDX-License-Identifier: Apache-2.0
"""Captures matplotlib figures: each exactly once, in order, and none in a later cell."""

import io
import math

from glovebox import channel as wire
from glovebox import limits
from glovebox.charts import series, settings, waiting

_session = None
_pyplot = None
_last_shown = None  # for plt.savefig() right after plt.show()
_missing = set()  # characters that no font had, not yet told


def patch_pyplot(session, pyplot):
    """Runs when pyplot has been imported."""
    global _session, _pyplot
    _session, _pyplot = session, pyplot
    plain_switch, plain_savefig = pyplot.switch_backend, pyplot.savefig

    def switch_backend(newbackend):
        settings.refuse(session, newbackend)
        plain_switch("agg")

    def savefig(*args, **options):
        # show() closed the figure; a script that saves after showing means that figure, not a new empty one.
        if not pyplot.get_fignums() and _last_shown is not None:
            return _last_shown.savefig(*args, **options)
        return plain_savefig(*args, **options)

    savefig.__doc__ = plain_savefig.__doc__
    pyplot.switch_backend, pyplot.savefig = switch_backend, savefig
    pyplot.show, pyplot.pause = show, waiting.pause
    pyplot.Figure.show = _figure_show
    series.patch_axes(pyplot.Axes)
    from matplotlib import _text_helpers

    _text_helpers.warn_on_missing_glyph = lambda codepoint, *_: _missing.add(chr(codepoint))


# What user code calls.


def show(*_args, block=None, **_options):
    """Shows all open figures here and closes them. With block=False they stay open for more drawing."""
    for figure in _open_figures():
        _emit_or_close(figure)
    if block is not False:
        _close_all()


def _figure_show(figure, warn=True):
    _emit_or_close(figure)
    _pyplot.close(figure)


def _emit_or_close(figure):
    """Shows a figure; one that cannot be drawn is closed, so that its error is told once."""
    try:
        _emit(figure)
    except BaseException:
        _pyplot.close(figure)
        raise


# Capturing.


def flush(failed):
    """Shows what the cell left open, and closes it. Called once at the end of a cell."""
    global _last_shown
    if _pyplot is None:
        return
    errors = []
    try:
        for figure in _open_figures():
            try:
                _emit(figure)
            except Exception as error:
                errors.append(error)
        tell_missing()
    finally:
        _close_all()
        _last_shown = None
    if errors and not failed:
        raise errors[0]
    for error in errors:
        _session.notice("chart.failed", f"A chart could not be drawn: {type(error).__name__}: {str(error)[:1000]}")


def _open_figures():
    from matplotlib._pylab_helpers import Gcf

    return [Gcf.figs[number].canvas.figure for number in sorted(Gcf.figs)]


def _close_all():
    _pyplot.close("all")


def _emit(figure):
    """Sends a figure, unless it is empty or was shown in its present state."""
    global _last_shown
    if (getattr(figure, "_glovebox_shown", False) and not figure.stale) or _is_empty(figure):
        return
    from glovebox.bundle import Bundle
    from glovebox.session import generous

    _last_shown = figure
    with generous():
        bundle = Bundle()
        figure_bundle(_session, bundle, figure)  # what it raises is the cell's error: a chart was lost
        bundle.send(_session, wire.DISPLAY)


def _is_empty(figure):
    return not (
        figure.axes
        or figure.texts
        or figure.images
        or figure.patches
        or figure.lines
        or figure.legends
        or figure.subfigs
    )


def figure_bundle(session, bundle, figure):
    """The forms of a figure: picture, data, and a line of text; of an empty one the text alone."""
    if _is_empty(figure):
        bundle.add("text/plain", repr(figure))
        return
    dpi, box = _size(session, figure)
    width, height = round(box.width * dpi), round(box.height * dpi)
    if "svg" in settings.FORMATS:
        bundle.add("image/svg+xml", _draw(figure, "svg", dpi, box).decode())
    if "png" in settings.FORMATS or not bundle.data:  # an SVG of too many points is left out
        picture = _draw(figure, "png", dpi, box)
        width, height = int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])  # PNG's first chunk
        bundle.add("image/png", picture)
    session.charts += 1
    bundle.metadata.update(
        {"width": width, "height": height, "dpi": dpi, "glovebox": {"chart": True, "index": session.charts}}
    )
    data = series.describe_safely(session, figure)
    bundle.add("application/vnd.glovebox.chart+json", data)
    bundle.add("text/plain", f"<Figure: {data['type']} chart{series.titled(data)}, {width} x {height} pixels>")
    figure.stale = False
    figure._glovebox_shown = True
    tell_missing()


def tell_missing():
    """Warns of characters that are boxes in the picture."""
    if _missing:
        text = "".join(sorted(_missing))[:100]
        _missing.clear()
        _session.notice(
            "chart.missing_glyph", f"No installed font has these characters, so a chart shows boxes for them: {text}"
        )


def _size(session, figure):
    """Returns the resolution to draw at, and the box around everything drawn, in inches."""
    dpi = max(limits.CHART_DPI, figure.dpi)
    allowed = min(dpi, _bounded_dpi(*figure.get_size_inches(), dpi))
    box = _tight_box(figure, allowed)
    own = figure.bbox_inches
    bounded = _bounded_dpi(box.width, box.height, allowed)
    if bounded < allowed / 2:  # something stands far outside: show the figure, not the emptiness around it
        box, bounded = own, allowed
    if bounded < dpi:
        session.notice(
            "chart.reduced",
            f"A chart of {box.width:.0f} x {box.height:.0f} inches was drawn at {bounded:.0f} dpi, not {dpi:.0f}: "
            f"at most {limits.CHART_MAX_PIXELS:,} pixels are drawn.",
        )
    return bounded, box


def _bounded_dpi(width, height, dpi):
    if not (math.isfinite(width) and math.isfinite(height)) or width <= 0 or height <= 0:
        return dpi
    by_area = math.sqrt(limits.CHART_MAX_PIXELS / (width * height))
    bound = min(by_area, limits.CHART_MAX_SIDE / width, limits.CHART_MAX_SIDE / height)
    return dpi if bound >= dpi else max(1, math.floor(bound))


def _tight_box(figure, dpi):
    """What bbox_inches="tight" would take, at the resolution that will be drawn."""
    before = figure.dpi
    try:
        figure.dpi = dpi
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
        if not all(map(math.isfinite, box.bounds)) or box.width <= 0 or box.height <= 0:
            return figure.bbox_inches
        return box.padded(0.1)
    finally:
        figure.dpi = before


def _draw(figure, form, dpi, box):
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=dpi, bbox_inches=box)
    return file.getvalue()
