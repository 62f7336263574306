# expect: oom
# kind: mission; why: a list that grows meets the limit of memory
held = []
while len(held) < 4096:
    held.append(bytearray(1 << 20))
print("BREACH: 4 GiB held")
