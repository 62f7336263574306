# expect: limit
# kind: memory; why: buffers of local sockets count as memory of the run
import os, socket, time
children, chunk = [], b"x" * (64 << 10)
read, write = os.pipe()
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        held, total = [], 0
        try:
            while total < (100 << 20) and len(held) < 110:
                pair = socket.socketpair()
                held.append(pair)
                pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
                pair[0].setblocking(False)
                try:
                    while True:
                        total += pair[0].send(chunk)
                except BlockingIOError:
                    pass
        except OSError:
            pass
        os.write(write, b"%d\n" % total)
        time.sleep(60)
        os._exit(0)
    children.append(pid)
os.close(write)
text = b""
while text.count(b"\n") < 8:
    part = os.read(read, 4096)
    if not part:
        break
    text += part
total = sum(map(int, text.split()))
for pid in children:
    os.kill(pid, 9)
print("BREACH: %d MiB in buffers of local sockets" % (total >> 20) if total > (640 << 20) else "CONTAINED")
