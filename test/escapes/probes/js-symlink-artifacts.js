// expect: contained
// kind: boundary; why: links that are left in the working folder are not followed by whoever reads it
const fs = require('fs')
fs.symlinkSync('/etc/shadow', 'shadow.txt'); fs.symlinkSync('/var/tmp/sbx-canary-host', 'canary.txt'); fs.symlinkSync('/', 'root')
fs.symlinkSync('loop', 'loop'); fs.mkdirSync('a/b', { recursive: true }); fs.symlinkSync('../../../../../..', 'a/b/up')
for (const path of ['shadow.txt', 'canary.txt', 'root/var/tmp/sbx-canary-host', 'a/b/up/var/tmp/sbx-canary-host']) {
  try { fs.readFileSync(path); console.log('BREACH:', path) } catch {}
}
try { fs.linkSync('/etc/passwd', 'hard.txt'); console.log('BREACH: a hard link into the image') } catch {}
console.log('CONTAINED')
