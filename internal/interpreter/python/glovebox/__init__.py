# SPDX-License-Identifier: Apache-2.0
"""The Python interpreter that runs inside every sandbox.

A small shell of our own: it reads cells from the guest over a descriptor, runs them
as a notebook does, and sends back text, values, charts and errors as frames of the
format that Go's package wire defines. Nothing here is a wall: user code shares this
process and may do anything to it, which can harm only its own output.

Importing the package has no side effects, so that a zygote can import it, call
glovebox.warm.warm(), fork, call glovebox.warm.after_fork(), and serve a Session.
Heavy modules are imported where they are first needed: a cell pays for what it uses.

For user code there is one function here: glovebox.set_formats("svg").
"""

import builtins

# The builtins of our own code where it must go on after user code broke its own: a module that begins with
# "from glovebox import OWN as __builtins__" defines functions that see these.
OWN = dict(vars(builtins))


def set_formats(*formats):
    """Chooses the picture formats of charts from now on: "png" (the default), "svg", or both."""
    from glovebox.charts import settings

    settings.set_formats(*formats)
