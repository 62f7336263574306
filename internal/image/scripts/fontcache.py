# SPDX-License-Identifier: Apache-2.0
"""Prints matplotlib's font list as JSON, with other names for the image's fonts added.

Runs once, while the image is built, as an unprivileged user without a network.
Standard input: {"aliases": {"SimHei": "Noto Sans CJK SC", ...}}.
Standard output: {"name": "fontlist-vX.json", "content": "...", "families": [...]}.
"""

import dataclasses
import json
import operator
import os
import sys
import tempfile

os.environ["MPLCONFIGDIR"] = tempfile.mkdtemp()

from matplotlib import font_manager  # noqa: E402  (needs the folder above)


def main():
    aliases = json.load(sys.stdin)["aliases"]
    manager = font_manager.FontManager()
    # The scan's order is the disk's; a fixed one makes equal images of equal inputs.
    place = operator.attrgetter("fname", "index", "name")
    manager.afmlist.sort(key=place)
    faces = sorted(manager.ttflist, key=place)
    manager.ttflist = list(faces)
    known = {face.name for face in faces}
    for alias, family in aliases.items():
        if family not in known:
            sys.exit(f"alias {alias!r}: no installed font is named {family!r}")
        if alias in known:
            continue
        for face in faces:
            if face.name == family:
                manager.ttflist.append(dataclasses.replace(face, name=alias))
    path = os.path.join(os.environ["MPLCONFIGDIR"], "out.json")
    font_manager.json_dump(manager, path)
    with open(path, encoding="utf-8") as file:
        content = file.read()
    name = f"fontlist-v{font_manager.FontManager.__version__}.json"
    json.dump({"name": name, "content": content, "families": sorted(known)}, sys.stdout)


main()
