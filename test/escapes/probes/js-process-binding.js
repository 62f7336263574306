// expect: contained
// kind: surface; why: node's own bindings are only as strong as the process
for (const name of ['fs', 'spawn_sync', 'process_wrap', 'tcp_wrap', 'pipe_wrap', 'contextify', 'natives', 'inspector']) {
  try { process.binding(name) } catch {}
}
const { spawnSync } = require('child_process')
const id = spawnSync('id', ['-u']).stdout.toString().trim()
if (id !== '1000') console.log('BREACH: uid', id)
for (const call of [() => process.setuid(0), () => process.setgid(0), () => process.setgroups([0]), () => process.initgroups('root', 0)]) {
  try { call(); if (process.getuid() === 0 || process.getgid() === 0) console.log('BREACH: became root') } catch {}
}
console.log('CONTAINED')
