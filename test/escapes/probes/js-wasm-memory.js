// expect: oom
// kind: resource; why: memories of WebAssembly count when they are touched
const held = []
for (;;) {
  const memory = new WebAssembly.Memory({ initial: 1024 })
  new Uint8Array(memory.buffer).fill(1)
  held.push(memory)
}
