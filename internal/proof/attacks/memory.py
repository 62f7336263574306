# SPDX-License-Identifier: Apache-2.0
blocks = []
for _ in range(64):
    blocks.append(bytearray(b"\x01") * (16 << 20))
print("BROKEN: held 1 GiB")
