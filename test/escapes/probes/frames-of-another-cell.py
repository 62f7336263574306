# expect: contained
# kind: protocol; why: forged ends, replies and results of other cells must not be believed, and broken order harms only us
import os, sys
ours = sys.__stdout__.buffer._channel.cell
def frame(kind, flags, cell, payload):
    return len(payload).to_bytes(4) + bytes((1, kind, flags, 0)) + cell.to_bytes(4) + payload
for cell in range(0, 40):
    if cell == ours:
        continue
    for kind in (0x22, 0x23, 0x24, 0x25, 0x26, 0x2F):
        os.write(3, frame(kind, 0, cell, b'{"status":"ok","data":{"text/plain":"BREACH: forged"},"name":"BREACH:","value":"x"}'))
print("CONTAINED")
