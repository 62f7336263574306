// expect: contained
// kind: boundary; why: no signal from the user reaches the guest or what is outside
for (const pid of [1, 0x7fffffff, -0x7fffffff]) for (let n = 1; n < 32; n++) { if (n !== 19) try { process.kill(pid, n) } catch {} }
await new Promise((done) => setTimeout(done, 200))
console.log('CONTAINED')
