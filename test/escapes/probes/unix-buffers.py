# expect: limit
# kind: memory; why: buffers of local sockets count as memory of the run
import socket
held, total = [], 0
chunk = b"x" * (64 << 10)
try:
    while total < (700 << 20):
        import os
        pair = socket.socketpair()
        if len(held) > 110:
            if os.fork():
                held.clear()
                os.wait()
                break
            held.append(pair)
            held.clear()
        pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        pair[0].setblocking(False)
        held.append(pair)
        try:
            while True:
                total += pair[0].send(chunk)
        except BlockingIOError:
            pass
except OSError:
    pass
print("held", total >> 20)
print("CONTAINED" if total < (600 << 20) else "BREACH: %d MiB in buffers of local sockets" % (total >> 20))
