# SPDX-License-Identifier: Apache-2.0
"""How charts are drawn here: no window, sharp, and in the formats that were asked for."""

import os

from glovebox import limits

FORMATS = ["png"]

_WINDOWED = ("gtk", "qt", "tk", "wx", "macosx", "webagg", "nbagg", "notebook", "widget", "module://ipympl", "ipympl")
_told = set()


def set_formats(*formats):
    """Chooses picture formats. The names that InlineBackend knows are understood."""
    chosen = []
    for name in formats:
        known = {"png": "png", "retina": "png", "png2x": "png", "jpg": "png", "jpeg": "png", "svg": "svg"}.get(
            str(name).lower()
        )
        if known is None:
            raise ValueError(f"charts come as 'png' or 'svg', not as {name!r}")
        if known not in chosen:
            chosen.append(known)
    FORMATS[:] = chosen or ["png"]


def patch_matplotlib(session, matplotlib):
    """Runs when matplotlib has been imported: the only backend is Agg, and the defaults are for sharp screens."""
    for settings in (matplotlib.rcParamsDefault, matplotlib.rcParamsOrig, matplotlib.rcParams):
        # Resets go back to rcParamsDefault: to ours, not to 100 dpi and a minus that many fonts lack.
        if settings["figure.dpi"] < limits.CHART_DPI:
            settings["figure.dpi"] = limits.CHART_DPI
        settings["axes.unicode_minus"] = False
        settings["savefig.dpi"] = "figure"
        settings._set("backend", "agg")
    refuse(session, os.environ.get("MPLBACKEND", ""))
    plain = matplotlib.use

    def use(backend, *, force=True):
        refuse(session, backend)
        plain("agg", force=force)

    use.__doc__ = plain.__doc__
    matplotlib.use = use


def refuse(session, backend):
    """Says, once for each name, that a backend with a window is replaced. Agg writes all file formats."""
    name = str(backend).lower()
    if name.startswith(_WINDOWED) and name not in _told:
        _told.add(name)
        session.notice(
            "chart.backend",
            f"The matplotlib backend {str(backend)[:100]!r} opens a window, and a sandbox has none: "
            "Agg is used, and charts are captured as pictures.",
        )
