// expect: contained
// kind: surface; why: built-in modules with reach of their own: executables, extensions, system interfaces
const load = (name) => { try { return require(name) } catch { return null } }
try { load('node:sea')?.getRawAsset('x'); console.log('BREACH: an asset') } catch {}
const sqlite = load('node:sqlite')
if (sqlite) try { new sqlite.DatabaseSync('/tmp/x.db', { allowExtension: true }).loadExtension('/usr/lib/x86_64-linux-gnu/libm.so.6'); console.log('BREACH: an extension') } catch {}
const wasi = load('node:wasi')
if (wasi) try { new wasi.WASI({ version: 'preview1', preopens: { '/host': '/proc/1/root' } }); require('fs').readFileSync('/proc/1/root/var/tmp/sbx-canary-host'); console.log('BREACH: wasi') } catch {}
try { require('trace_events').createTracing({ categories: ['node.fs'] }).enable() } catch {}
console.log('CONTAINED')
