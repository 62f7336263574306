// expect: contained
// kind: leak; why: /proc shows the box's own processes and nothing of the host
const fs = require('fs')
const pids = fs.readdirSync('/proc').filter((n) => /^\d+$/.test(n))
if (pids.length > 20) console.log('BREACH: sees', pids.length, 'processes')
for (const pid of pids) {
  if (pid === String(process.pid)) continue
  for (const name of ['environ', 'mem', 'maps', 'root/etc/hostname', 'cwd/x']) {
    try { if (fs.readFileSync(`/proc/${pid}/${name}`).length) console.log('BREACH:', pid, name) } catch {}
  }
}
for (const path of ['/proc/kcore', '/proc/kmsg', '/dev/mem', '/dev/sda', '/sys/kernel', '/proc/sysrq-trigger']) {
  try { fs.openSync(path, 'r'); console.log('BREACH: opened', path) } catch {}
}
const symbols = (() => { try { return fs.readFileSync('/proc/kallsyms', 'utf8').slice(0, 2000) } catch { return '' } })()
if (/^(?!0{16})[0-9a-f]{16} /m.test(symbols)) console.log('BREACH: kernel addresses')
console.log('CONTAINED')
