# SPDX-License-Identifier: Apache-2.0
import time

time.sleep(8)
print("BROKEN: ran 8 seconds where 1 is allowed")
