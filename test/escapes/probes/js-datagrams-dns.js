// expect: contained
// kind: network; why: names do not resolve, and datagrams leave by no door
const dgram = require('dgram'), dns = require('dns').promises
dns.setServers(['8.8.8.8', '127.0.0.53'])
for (const ask of [() => dns.lookup('example.com'), () => dns.resolve4('example.com'), () => dns.resolveTxt('x.example.com')]) {
  try { const answer = await Promise.race([ask(), new Promise((_, no) => setTimeout(no, 3000, new Error('late')))]); console.log('BREACH: resolved', JSON.stringify(answer)) } catch {}
}
const socket = dgram.createSocket('udp4')
const error = await new Promise((done) => socket.send('x', 53, '8.8.8.8', done))
if (!error) console.log('BREACH: a datagram left')
socket.close()
console.log('CONTAINED')
