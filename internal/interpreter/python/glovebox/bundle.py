# SPDX-License-Identifier: Apache-2.0
"""Makes bundles: one value in several forms, by MIME type, each bounded."""

import sys
from base64 import b64encode

from glovebox import channel as wire
from glovebox import limits
from glovebox.cutting import cut
from glovebox.session import generous

# The methods by which a value says how it wants to be shown.
METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/pdf", "_repr_pdf_"),
    ("text/latex", "_repr_latex_"),
    ("application/javascript", "_repr_javascript_"),
    ("application/json", "_repr_json_"),
)

# Types of libraries that are shown by our own code: (first part of the module, class) -> (our module, function).
SPECIAL = {
    ("pandas", "DataFrame"): ("tables", "pandas_frame"),
    ("pandas", "Series"): ("tables", "pandas_series"),
    ("pandas", "Styler"): ("tables", "pandas_styler"),
    ("polars", "DataFrame"): ("tables", "polars_frame"),
    ("polars", "Series"): ("tables", "polars_series"),
    ("matplotlib", "Figure"): ("charts.figures", "figure_bundle"),
    ("PIL", "Image"): ("libraries", "pillow_bundle"),
    ("plotly", "BaseFigure"): ("libraries", "plotly_bundle"),
    ("altair", "TopLevelMixin"): ("libraries", "altair_bundle"),
    ("bokeh", "UIElement"): ("libraries", "bokeh_bundle"),
}


class Bundle:
    """The forms of one value under way."""

    def __init__(self):
        self.data = {}
        self.metadata = {}
        self.notices = []

    def add(self, mime, form):
        """Adds a form; a pair is a form with its metadata, as IPython has it."""
        if isinstance(form, tuple) and len(form) == 2:
            form, metadata = form
            if isinstance(metadata, dict):
                self.metadata[mime] = metadata
        if isinstance(form, (bytes, bytearray)):
            form = b64encode(form).decode()
        if mime.endswith("json"):
            self.add_json(mime, form)
            return
        if isinstance(form, list) and all(isinstance(line, str) for line in form):
            form = "".join(form)  # how notebook files keep long texts
        if isinstance(form, str):
            self._add_text(mime, form)

    def _add_text(self, mime, form):
        if mime == "text/plain":
            if len(form) > limits.MAX_TEXT:
                self.notices.append(
                    ("result.cut", f"The text of a value has {len(form):,} characters; its head and tail are shown.")
                )
            self.data[mime] = cut(form, limits.MAX_TEXT)
            return
        binary = mime.startswith(("image/", "application/pdf")) and mime != "image/svg+xml"
        limit = limits.MAX_IMAGE if binary else limits.MAX_MARKUP
        if len(form) > limit:
            self._leave_out(mime, len(form), limit)
        else:
            self.data[mime] = form

    def add_json(self, mime, form):
        size = len(wire.encode(form))
        if size > limits.MAX_JSON_FORM:
            self._leave_out(mime, size, limits.MAX_JSON_FORM)
        else:
            self.data[mime] = form

    def send(self, session, kind, **fields):
        """Sends the bundle, and what there is to tell about it."""
        if self.data and not (kind == wire.DISPLAY and _captured(self)):
            session.channel.send(kind, {**fields, "data": self.data, "metadata": self.metadata})
        for code, text in self.notices:
            session.notice(code, text)
        session.channel.run_postponed()

    def _leave_out(self, mime, size, limit):
        self.notices.append(
            (
                "result.form_left_out",
                f"The {mime} form of a value was left out: {size:,} bytes, at most {limit:,} are sent.",
            )
        )


def show(session, value, kind, *, include=None, exclude=None, metadata=None, raw=False, mark=None):
    """Sends a value as a DISPLAY or RESULT frame."""
    if not raw and hasattr(type(value), "_ipython_display_") and _special(value) is None:
        value._ipython_display_()  # it shows itself, through display()
        return
    with generous():
        bundle = of_raw(value) if raw else of(session, value)
        _choose(bundle.data, include, exclude)
        for key, item in (metadata or {}).items():
            bundle.metadata[key] = item
        if mark:
            bundle.metadata["glovebox"] = {**bundle.metadata.get("glovebox", {}), **mark}
        bundle.send(session, kind)


def of(session, value):
    """Returns the bundle of any value. What the value's own methods raise ends up as text in place."""
    bundle = Bundle()
    special = _special(value)
    if special is not None:
        try:
            special(session, bundle, value)
            return bundle
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            _let_signals_pass(session, error)
            bundle.data.clear()
            bundle.notices.append(_failed(value, "showing", error))
            bundle.add("text/plain", plain(session, value))
            return bundle
    if not isinstance(value, type):
        _ask(session, bundle, value)
    if "text/plain" not in bundle.data:
        bundle.add("text/plain", plain(session, value))
    return bundle


def of_raw(data):
    """Returns the bundle of a dict that is one already."""
    bundle = Bundle()
    for mime, form in dict(data).items():
        bundle.add(str(mime), form)
    return bundle


def _captured(bundle):
    """IPython's %%capture takes what is displayed meanwhile. Tells whether it did."""
    magics = sys.modules.get("glovebox.magics")
    publisher = getattr(magics and magics.current(), "display_pub", None)
    if type(publisher).__name__ != "CapturingDisplayPublisher":
        return False
    publisher.publish(bundle.data, bundle.metadata)
    return True


def plain(session, value):
    """Returns the text form of a value. Never raises, but for an interrupt."""
    from glovebox.pretty import pretty

    return pretty(value, lambda error: _let_signals_pass(session, error))


def _special(value):
    for cls in type(value).__mro__:
        place = SPECIAL.get((str(getattr(cls, "__module__", "")).partition(".")[0], cls.__name__))
        if place is not None:
            name = "glovebox." + place[0]
            __import__(name)
            return getattr(sys.modules[name], place[1])
    return None


def _ask(session, bundle, value):
    """Collects the forms that a value's methods give. Looked up on the type: a mock answers to any name."""
    method = getattr(type(value), "_repr_mimebundle_", None)
    if method is not None:
        answer = _call(session, bundle, value, method, "_repr_mimebundle_", include=None, exclude=None)
        if isinstance(answer, tuple) and len(answer) == 2:
            answer, metadata = answer
            bundle.metadata.update(metadata if isinstance(metadata, dict) else {})
        if isinstance(answer, dict):
            for mime, form in answer.items():
                bundle.add(str(mime), form)
    for mime, name in METHODS:
        method = getattr(type(value), name, None)
        if method is not None and mime not in bundle.data:
            form = _call(session, bundle, value, method, name)
            if form is not None:
                bundle.add(mime, form)


def _call(session, bundle, value, method, name, **options):
    try:
        return method(value, **options)
    except (KeyboardInterrupt, SystemExit):
        raise
    except NotImplementedError:
        return None
    except BaseException as error:
        _let_signals_pass(session, error)
        bundle.notices.append(_failed(value, name, error))
        return None


def _let_signals_pass(session, error):
    """What a signal's handler raised is meant for the cell, not for the value that happened to be shown."""
    if error is session.channel.from_signal:
        raise error


def _failed(value, name, error):
    try:
        text = cut(str(error), 1000)
    except BaseException:
        text = ""
    return "repr.failed", f"{name} of a {type(value).__name__} raised {type(error).__name__}: {text}"


def _choose(data, include, exclude):
    for mime in list(data):
        if (include and mime not in include) or (exclude and mime in exclude):
            del data[mime]
