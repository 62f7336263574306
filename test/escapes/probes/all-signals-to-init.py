# expect: contained
# kind: process; why: the first process of a box is the guest; no signal may reach it
import os, signal
sent = []
for number in range(0, 65):
    for target in (1, -1):
        if target == -1:
            continue
        try:
            os.kill(target, number)
            sent.append(number)
        except (OSError, ValueError):
            pass
    try:
        signal.pidfd_send_signal(os.pidfd_open(1), number)
        sent.append(number)
    except (OSError, ValueError):
        pass
print("BREACH: signals %s reached the guest" % sent if sent else "CONTAINED")
