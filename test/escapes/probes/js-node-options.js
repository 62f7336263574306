// expect: contained
// kind: surface; why: options for a child node open nothing
const { spawnSync } = require('child_process')
for (const options of ['--require=/data/x.js', '--max-old-space-size=999999', '--inspect=0.0.0.0:9229', '--allow-fs-read=*', '--icu-data-dir=/root', '--openssl-config=/etc/shadow', '--report-dir=/']) {
  const r = spawnSync(process.execPath, ['-p', 'process.getuid() + " " + require("fs").existsSync("/var/tmp/sbx-canary-host")'], { env: { ...process.env, NODE_OPTIONS: options }, timeout: 3000 })
  if (/^0 |true/.test(String(r.stdout))) console.log('BREACH:', options, String(r.stdout))
}
console.log('CONTAINED')
