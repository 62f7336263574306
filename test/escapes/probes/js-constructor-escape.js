// expect: contained
// kind: boundary; why: the way out of a vm context leads to the process, and that must lead nowhere
const vm = require('vm')
const outer = vm.runInNewContext('this.constructor.constructor("return process")()')
const fs = outer.mainModule.require('fs')
for (const path of ['/var/tmp/sbx-canary-host', '/etc/shadow', '/root/.ssh', '/proc/1/environ', '/proc/1/root/etc/passwd']) {
  try { console.log('BREACH:', path, fs.readdirSync.length && fs.readFileSync(path).length) } catch {}
}
try { fs.writeFileSync('/usr/lib/glovebox/javascript/main.js', 'x'); console.log('BREACH: the interpreter was overwritten') } catch {}
console.log('CONTAINED')
