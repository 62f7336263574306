# expect: contained
# kind: memory; why: buffers of TCP sockets are memory of the host, and tcp_mem is one budget for all of it
import os, resource, socket, time
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(100)
held, total, chunk = [], 0, b"x" * (1 << 20)
LIMIT = 640 << 20  # the harness gives 512 MiB
children = []
read, write = os.pipe()
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        mine = 0
        try:
            while mine < LIMIT // 4 and len(held) < 100:
                a = socket.create_connection(server.getsockname())
                b, _ = server.accept()
                a.setblocking(False)
                held.append((a, b))
                idle = 0
                while idle < 3:
                    try:
                        mine += a.send(chunk)
                        idle = 0
                    except BlockingIOError:
                        idle += 1
                        time.sleep(0.002)
        except OSError:
            pass
        os.write(write, b"%d\n" % mine)
        time.sleep(15)
        os._exit(0)
    children.append(pid)
os.close(write)
text = b""
end = time.time() + 12
os.set_blocking(read, False)
while text.count(b"\n") < 8 and time.time() < end:
    try:
        text += os.read(read, 4096)
    except BlockingIOError:
        time.sleep(0.05)
total = sum(map(int, text.split()))
for pid in children:
    os.kill(pid, 9)
print("held", total >> 20, "MiB")
print("BREACH: %d MiB in TCP buffers under a limit of 512" % (total >> 20) if total > LIMIT else "CONTAINED")
