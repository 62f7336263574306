# SPDX-License-Identifier: Apache-2.0
for _ in range(8):
    print("x" * (1 << 20))
