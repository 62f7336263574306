# SPDX-License-Identifier: Apache-2.0
import socket

reached = []
for family, address in (
    (socket.AF_INET, "169.254.169.254"), (socket.AF_INET, "169.254.170.2"), (socket.AF_INET, "100.100.100.200"),
    (socket.AF_INET6, "fd00:ec2::254"),
):  # fmt: skip
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.connect((address, 80))
        reached.append(address)
    except OSError:
        pass
print("BROKEN: there is a route to " + ", ".join(reached) if reached else "held: none of four metadata addresses has a route")
