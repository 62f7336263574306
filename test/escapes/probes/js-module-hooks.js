// expect: contained
// kind: surface; why: hooks change how this session's code is loaded, never our program's files
const Module = require('module'), fs = require('fs')
Module._load = new Proxy(Module._load, {}); Module._extensions['.js'] = () => {}
try { Module.register('data:text/javascript,export async function load(u, c, n) { return n(u, c) }') } catch {}
for (const path of ['/usr/lib/glovebox/javascript/glovebox/session.js', '/usr/share/glovebox/node_modules/sucrase/dist/index.js', '/usr/share/nodejs/acorn/dist/acorn.js', '/usr/bin/node']) {
  for (const attack of [() => fs.writeFileSync(path, ''), () => fs.renameSync(path, path + 'x'), () => fs.unlinkSync(path), () => fs.chmodSync(path, 0o777), () => fs.truncateSync(path)]) {
    try { attack(); console.log('BREACH:', path) } catch {}
  }
}
console.log('CONTAINED')
