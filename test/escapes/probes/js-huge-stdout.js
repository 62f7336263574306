// expect: limit
// kind: output; why: a flood is counted and cut
const line = 'x'.repeat(1 << 20)
for (;;) process.stdout.write(line)
