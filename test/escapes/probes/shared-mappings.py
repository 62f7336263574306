# expect: contained
# kind: lateral; why: a writable shared mapping of a zygote would be one memory for the sessions of all tenants
shared = []
with open("/proc/self/maps") as maps:
    for line in maps:
        fields = line.split(None, 5)
        if "w" in fields[1] and fields[1].endswith("s"):
            shared.append(line.strip())
print("BREACH: " + shared[0] if shared else "CONTAINED")
