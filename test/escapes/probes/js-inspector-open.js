// expect: contained
// kind: surface; why: a debugger's port opens on the sandbox's own loopback and is nobody else's
const inspector = require('inspector')
try { inspector.open(9229, '0.0.0.0') } catch {}
const url = inspector.url() ?? ''
if (Object.values(require('os').networkInterfaces()).flat().some((i) => !i.internal)) console.log('BREACH: somebody could reach', url)
try { inspector.close() } catch {}
process.kill(process.pid, 'SIGUSR1')
await new Promise((done) => setTimeout(done, 300))
console.log('CONTAINED')
process.exit(0)
