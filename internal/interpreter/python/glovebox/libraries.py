# SPDX-License-Identifier: Apache-2.0
"""Other libraries that show things: what their show() does here, and the forms of their values."""

import io
import json
import sys

from glovebox import limits
from glovebox.charts import interactive


def _replace(module, name, function, *copies):
    """Replaces a function in its module, and in modules that have copied it when they were imported before us."""
    setattr(module, name, function)
    for other in copies:
        if hasattr(sys.modules.get(other), name):
            setattr(sys.modules[other], name, function)


# Pillow.


def patch_pillow(session, module):
    def show(self, title=None):
        """Shows the picture in the output."""
        display(self)  # noqa: F821, a builtin here

    module.Image.show = show


def pillow_bundle(session, bundle, image):
    width, height = image.size
    metadata = {"width": width, "height": height}
    if width * height > limits.MAX_IMAGE_PIXELS:
        factor = (limits.MAX_IMAGE_PIXELS / (width * height)) ** 0.5
        image = image.resize((max(1, int(width * factor)), max(1, int(height * factor))))
        bundle.notices.append(
            ("image.reduced", f"A picture of {width} x {height} pixels was reduced to {image.width} x {image.height}.")
        )
        metadata = {"width": image.width, "height": image.height}
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG")
    bundle.add("image/png", file.getvalue())
    bundle.metadata["image/png"] = metadata
    bundle.add("text/plain", f"<Image: {image.mode}, {width} x {height} pixels>")


# Plotly.


def patch_plotly_io(session, module):
    def show(fig, *args, **options):
        display(fig)  # noqa: F821

    _replace(module, "show", show, "plotly.io")


def patch_plotly(session, module):
    module.BaseFigure.show = lambda self, *args, **options: display(self)  # noqa: F821


def plotly_bundle(session, bundle, figure):
    session.charts += 1
    data = json.loads(figure.to_json())
    bundle.add("application/vnd.plotly.v1+json", data)
    _chart(session, bundle, interactive.plotly(figure))


# Altair.


def patch_altair(session, module):
    module.TopLevelMixin.show = lambda self, *args, **options: display(self)  # noqa: F821


def altair_bundle(session, bundle, chart):
    session.charts += 1
    spec = chart.to_dict()
    major = spec.get("$schema", "/v5").rpartition("/v")[2].partition(".")[0]
    bundle.add(f"application/vnd.vegalite.v{major}+json", spec)
    _chart(session, bundle, interactive.vegalite(spec))


def _chart(session, bundle, data):
    bundle.add("application/vnd.glovebox.chart+json", data)
    bundle.metadata["glovebox"] = {"chart": True, "index": session.charts}
    title = f" {data['title'][:200]!r}" if data["title"] else ""
    bundle.add("text/plain", f"<{data['type']} chart{title}: {len(data['series'])} series>")


# Bokeh.


def patch_bokeh_show(session, module):
    def show(obj, *args, **options):
        display(obj)  # noqa: F821

    _replace(module, "show", show, "bokeh.io", "bokeh.plotting")


def patch_bokeh_output(session, module):
    def output_notebook(*args, **options):
        """Does nothing: show() always shows here."""

    _replace(module, "output_notebook", output_notebook, "bokeh.io", "bokeh.plotting")


def bokeh_bundle(session, bundle, model):
    from bokeh.embed import file_html, json_item
    from bokeh.resources import CDN

    session.charts += 1
    bundle.add("application/vnd.bokeh.item+json", json_item(model))
    bundle.add("text/html", file_html(model, CDN, ""))
    bundle.metadata["glovebox"] = {"chart": True, "index": session.charts}
    bundle.add("text/plain", f"<{type(model).__name__} of bokeh>")


# IPython.


def patch_getipython(session, module):
    from glovebox.display import get_ipython

    _replace(module, "get_ipython", get_ipython, "IPython", "IPython.core.interactiveshell")


def patch_ipython_display(session, module):
    """IPython.display shows through our frames."""
    from glovebox import display as ours

    for name in ("display", "update_display", "clear_output", "publish_display_data", "DisplayHandle"):
        _replace(module, name, getattr(ours, name), "IPython.display", "IPython.core.display")
