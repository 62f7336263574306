# SPDX-License-Identifier: Apache-2.0
import socket

reached = []
for family, address in ((socket.AF_INET, "1.1.1.1"), (socket.AF_INET, "10.0.0.1"), (socket.AF_INET6, "2606:4700:4700::1111")):
    # Connecting a datagram socket sends nothing; it only asks for a route.
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.connect((address, 9))
        reached.append(address)
    except OSError:
        pass
print("BROKEN: there is a route to " + ", ".join(reached) if reached else "held: there is no route to any address")
