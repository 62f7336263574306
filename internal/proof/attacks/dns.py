# SPDX-License-Identifier: Apache-2.0
import socket

try:
    socket.getaddrinfo("example.org", 80)
    print("BROKEN: a name was resolved")
except OSError as error:
    print(f"held: no name can be resolved: {error.strerror or error}")
