// expect: oom
// kind: resource; why: memory outside the engine's heap counts as well
const held = []
for (;;) held.push(Buffer.alloc(32 << 20, 1))
