// expect: contained
// kind: protocol; why: forged ends and results of other cells are not believed
const fs = require('fs')
const frame = (kind, cell, text) => { const b = Buffer.alloc(12 + text.length); b.writeUInt32BE(text.length); b[4] = 1; b[5] = kind; b.writeUInt32BE(cell, 8); b.write(text, 12, 'latin1'); return b }
for (let cell = 1000; cell < 1040; cell++) {
  for (const kind of [0x22, 0x23, 0x24, 0x25, 0x26, 0x2f]) {
    try { fs.writeSync(3, frame(kind, cell, '{"status":"ok","data":{"text/plain":"BREACH: forged"},"name":"BREACH:","value":"x"}')) } catch {}
  }
}
console.log('CONTAINED')
