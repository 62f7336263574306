# expect: contained
# kind: surface; why: rare protocols load rare kernel modules: SCTP, DCCP, MPTCP, UDP-Lite, L2TP, ping
import socket
opened = []
for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, 6):
        for protocol in (1, 33, 58, 103, 115, 132, 136, 143, 256, 262):
            try:
                socket.socket(family, kind, protocol).close()
                opened.append((int(family), int(kind), protocol))
            except OSError:
                pass
for kind, protocol in ((socket.SOCK_STREAM, 0), (socket.SOCK_STREAM, 6), (socket.SOCK_DGRAM, 17)):
    socket.socket(socket.AF_INET, kind, protocol).close()  # what programs use stays
print("BREACH: sockets of (family, kind, protocol) %s" % opened if opened else "CONTAINED")
