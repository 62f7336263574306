# expect: limit
# kind: mission; why: files are counted
import os
made = 0
try:
    for folder in range(1000):
        os.mkdir("d%d" % folder)
        for n in range(1000):
            os.close(os.open("d%d/%d" % (folder, n), os.O_CREAT | os.O_WRONLY))
            made += 1
except OSError as error:
    print("after", made, error)
print("BREACH: a million files" if made == 1_000_000 else "CONTAINED")
