// expect: contained
// kind: persistence; why: a detached child does not outlive the sandbox, and the next one finds nothing of it
const fs = require('fs'), { spawn } = require('child_process')
if (fs.existsSync('/tmp/survivor') || fs.existsSync('/dev/shm/survivor')) console.log('BREACH: a file of an earlier sandbox')
const others = fs.readdirSync('/proc').filter((n) => /^\d+$/.test(n)).filter((pid) => { try { return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('survivor') } catch { return false } })
if (others.length) console.log('BREACH: a process of an earlier sandbox')
spawn('setsid', ['sh', '-c', ': survivor; trap "" TERM HUP INT; while :; do sleep 0.1; touch /tmp/survivor; done'], { detached: true, stdio: 'ignore' }).unref()
console.log('CONTAINED')
