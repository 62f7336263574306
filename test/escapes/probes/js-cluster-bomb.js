// expect: limit
// kind: resource; why: a fork bomb of node processes meets the limit of processes or of memory
const { fork } = require('child_process'), fs = require('fs')
fs.writeFileSync('/tmp/bomb.js', 'const { fork } = require("child_process"); for (;;) { try { fork(__filename).on("error", () => {}) } catch {} }')
for (let i = 0; i < 50; i++) fork('/tmp/bomb.js')
await new Promise(() => setInterval(() => {}, 100))
