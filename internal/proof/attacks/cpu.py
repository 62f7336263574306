# SPDX-License-Identifier: Apache-2.0
import time

end = time.monotonic() + 1.5
while time.monotonic() < end:
    pass
