// expect: contained
// kind: surface; why: machine code that is loaded has the rights of the process and no more
const fs = require('fs')
for (const path of ['/lib/x86_64-linux-gnu/libc.so.6', '/usr/lib/x86_64-linux-gnu/libm.so.6', '/proc/self/exe', '/data/x.node']) {
  try { process.dlopen({ exports: {} }, path, 2); console.log('BREACH: loaded', path) } catch {}
}
fs.writeFileSync('/tmp/evil.node', Buffer.from('7f454c460201010000', 'hex'))
try { require('/tmp/evil.node'); console.log('BREACH: loaded') } catch {}
console.log('CONTAINED')
