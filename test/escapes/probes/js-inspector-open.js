// expect: contained
// kind: surface; why: a debugger's port opens on the sandbox's own loopback and is nobody else's
const inspector = require('inspector')
try { inspector.open(9229, '0.0.0.0') } catch {}
const net = require('net'), port = await new Promise((done) => { const s = net.connect(9229, '127.0.0.1', () => { s.destroy(); done(true) }); s.on('error', () => done(false)) })
if (!port) console.log('the port did not open') // and so nothing was shown
console.log('CONTAINED')
process.kill(process.pid, 'SIGUSR1') // the same from outside; with the one above open it costs the session its own inspector
await new Promise((done) => setTimeout(done, 300))
process.exit(0)
