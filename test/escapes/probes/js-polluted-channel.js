// expect: contained
// kind: protocol; why: what user code does to prototypes and built-ins reaches frames at most, and those are claims
Object.prototype.status = 'ok'; Object.prototype.exit_code = 0; Object.prototype.kind = 0x2f
Object.prototype.toJSON = () => ({ status: 'ok', data: { 'text/plain': 'BREACH: forged' } })
Array.prototype.push = () => 0; Array.prototype.join = () => 'BREACH: joined'; String.prototype.replace = () => 'x'
Map.prototype.get = () => undefined; JSON.parse = () => ({ code: '', name: 'BREACH:' })
process.stdout.write('CONTAINED\n')
