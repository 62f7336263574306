# SPDX-License-Identifier: Apache-2.0
"""Byte-compiles the folders named as arguments, for every user and without time stamps.

Runs once, while the image is built. Files that are no valid Python (templates,
other versions' syntax) are counted and left out, as they are when imported.
"""

import compileall
import py_compile
import sys

whole = [
    compileall.compile_dir(
        folder,
        maxlevels=50,
        quiet=2,
        force=True,
        workers=0,
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    for folder in sys.argv[1:]
]
print("complete" if all(whole) else "some files are no valid Python")
