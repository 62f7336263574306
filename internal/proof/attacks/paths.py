# SPDX-License-Identifier: Apache-2.0
import os

# The folder belongs to this user and can be written: only a rule on paths stands before it.
if os.stat("/run").st_uid != os.getuid():
    print("BROKEN: /run has another owner, so nothing can be shown there")
else:
    try:
        os.mkdir("/run/proof")
        print("BROKEN: a folder was made where no rule allows it")
    except PermissionError:
        print("held: a folder of its own, which no rule allows, cannot be written")
