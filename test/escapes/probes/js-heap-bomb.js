// expect: oom
// kind: resource; why: the engine's heap counts, and its own limit is not the first to be met
const held = []
for (;;) held.push(Array.from({ length: 1e5 }, (_, i) => ({ i })))
