# SPDX-License-Identifier: Apache-2.0
"""Makes matplotlib work on a read-only root and draw every script.

Python loads this module at start through glovebox_site.pth. It costs nothing
until matplotlib is imported; then it does two things:

* The folder BAKED (settings and font list, written when the image was built) is
  accepted as matplotlib's configuration folder although nobody can write it.
  matplotlib would otherwise scan all fonts again, print a warning, and fail
  where no temporary folder is writable. MPLCONFIGDIR, when set, wins.
* Every font lookup ends with the image's fallback fonts, so Chinese, Arabic,
  Devanagari or emoji are drawn even after a style sheet, seaborn.set_theme() or
  plain rcParams replaced font.family. The fonts asked for still come first.
  "Font family not found" is said once for each name, not once for each lookup,
  and that a fallback font has no bold face is not said.
"""

import json
import os
import sys

BAKED = "/usr/share/glovebox/matplotlib"
FALLBACK_FILE = "/usr/share/glovebox/fonts.json"


def _run_matplotlib(module, run):
    """Runs matplotlib/__init__.py, letting the baked folder pass its test for write access."""
    os.environ.setdefault("MPLCONFIGDIR", BAKED)
    really = os.access

    def access(path, mode, **options):
        if mode == os.W_OK and os.fspath(path) == BAKED:
            return True
        return really(path, mode, **options)

    os.access = access
    try:
        run(module)
        module.get_configdir()  # both answers are cached by matplotlib
        module.get_cachedir()
    finally:
        os.access = really
    # rcdefaults() and the style "default" go back to these, not to a blurred 100 dpi.
    settings = module.rc_params_from_file(BAKED + "/matplotlibrc", use_default_template=False)
    module.rcParamsDefault.update({key: settings[key] for key in settings if key != "backend"})


def _run_font_manager(module, run):
    """Runs matplotlib/font_manager.py, then adds the fallback fonts to each lookup."""
    run(module)
    with open(FALLBACK_FILE, encoding="utf-8") as file:
        fallback = json.load(file)["fallback"]
    plain = module.FontManager._find_fonts_by_props

    def find(self, prop, *args, **options):
        prop = module.FontProperties._from_any(prop).copy()
        asked = list(prop.get_family())
        prop.set_family(asked + [name for name in fallback if name not in asked])
        return plain(self, prop, *args, **options)

    module.FontManager._find_fonts_by_props = find
    said = set()
    module._log.addFilter(lambda record: _worth_saying(record.getMessage(), fallback, said))


def _worth_saying(text, fallback, said):
    """Tells whether a message is new and about a font that the script asked for.

    That a fallback font has no bold face is not. At most 1,000 messages are remembered.
    """
    if text in said or (" font weight " in text and any(f" for {name}," in text for name in fallback)):
        return False
    if len(said) < 1000:
        said.add(text)
    return True


_RUNNERS = {"matplotlib": _run_matplotlib, "matplotlib.font_manager": _run_font_manager}


class _Finder:
    """A finder on sys.meta_path that wraps the loaders of the modules in _RUNNERS."""

    def find_spec(self, name, path=None, target=None):
        runner = _RUNNERS.get(name)
        if runner is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                run = spec.loader.exec_module
                spec.loader.exec_module = lambda module: runner(module, run)
                return spec
        return None


sys.meta_path.insert(0, _Finder())
