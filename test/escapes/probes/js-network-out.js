// expect: contained
// kind: network; why: nothing outside can be reached, neither the internet nor the host's loopback nor metadata services
const net = require('net')
const tries = [['1.1.1.1', 53], ['169.254.169.254', 80], ['10.0.0.1', 80], ['172.17.0.1', 22], ['192.168.1.1', 80], ['127.0.0.1', 22], ['127.0.0.1', 8722], ['::1', 8722], ['fd00:ec2::254', 80]]
await Promise.all(tries.map(([host, port]) => new Promise((done) => {
  const socket = net.connect({ host, port, timeout: 3000 }, () => { console.log('BREACH: connected to', host, port); done() })
  socket.on('error', done).on('timeout', () => { socket.destroy(); done() })
})))
for (const url of ['http://169.254.169.254/latest/meta-data/', 'http://metadata.google.internal/', 'https://example.com/']) {
  try { const r = await fetch(url, { signal: AbortSignal.timeout(3000) }); console.log('BREACH: fetched', url, r.status) } catch {}
}
console.log('CONTAINED')
