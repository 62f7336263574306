// expect: contained
// kind: boundary; profile: strict; why: the accounts are refused to Node.js, its threads and its children by every route
'use strict';
const fs = require('fs');
const os = require('os');
const { execFileSync, execSync } = require('child_process');
const { Worker } = require('worker_threads');

const read = [];
const attempt = (route, action) => {
  try {
    if (/root:|nobody|nogroup/.test(`${action()}`)) read.push(route);
  } catch { /* refused */ }
};
let n = 0;
for (const path of ['/etc/passwd', '/etc/group', '/proc/self/root/etc/passwd', '/proc/self/root/etc/group', '/etc/../etc/passwd']) {
  attempt('read', () => fs.readFileSync(path));
  attempt('stream', () => fs.readSync(fs.openSync(path), Buffer.alloc(4096)));
  attempt('require', () => require(path));
  attempt('copy', () => { fs.copyFileSync(path, `/tmp/c${++n}`); return fs.readFileSync(`/tmp/c${n}`); });
  attempt('clone', () => { fs.cpSync(path, `/tmp/c${++n}`); return fs.readFileSync(`/tmp/c${n}`); });
  attempt('link', () => { fs.linkSync(path, `/home/user/l${++n}`); return fs.readFileSync(`/home/user/l${n}`); });
  attempt('symlink', () => { fs.symlinkSync(path, `/tmp/s${++n}`); return fs.readFileSync(`/tmp/s${n}`); });
  attempt('map', () => process.report.getReport().header && fs.readFileSync(`/proc/self/fd/${fs.openSync(path, 0o10000000)}`));
  attempt('chmod', () => { fs.chmodSync(path, 0o644); return 'root:'; });
  attempt('rename', () => { fs.renameSync(path, '/tmp/moved'); return 'root:'; });
  attempt('cat', () => execFileSync('cat', [path], { stdio: 'pipe' }));
  attempt('options', () => execFileSync(process.execPath, ['-p', `require('fs').readFileSync('${path}', 'utf8')`], { stdio: 'pipe' }));
  attempt('binding', () => process.binding('fs').readFileUtf8(path, 0));
}
attempt('userInfo', () => JSON.stringify(os.userInfo()));
attempt('names', () => execSync('getent passwd; getent group; id; echo ~root', { stdio: 'pipe' }).toString().replace(/~root|groups?=/g, ''));
new Worker(`const { parentPort } = require('worker_threads');
let text = ''; try { text = require('fs').readFileSync('/etc/passwd', 'utf8'); } catch {} parentPort.postMessage(text);`, { eval: true })
  .once('message', (text) => {
    if (text) read.push('thread');
    console.log(read.length ? `BREACH: ${read}` : 'CONTAINED');
  });
