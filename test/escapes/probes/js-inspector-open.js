// expect: contained
// kind: surface; why: a debugger's port opens on the sandbox's own loopback and is nobody else's
const inspector = require('inspector')
try { inspector.open(9229, '0.0.0.0') } catch {}
const net = require('net'), port = await new Promise((done) => { const s = net.connect(9229, '127.0.0.1', () => { s.destroy(); done(true) }); s.on('error', () => done(false)) })
if (!port) console.log('the port did not open') // and so nothing was shown
process.kill(process.pid, 'SIGUSR1')
await new Promise((done) => setTimeout(done, 300))
console.log('CONTAINED')
try { inspector.close() } catch {}
process.exit(0)
