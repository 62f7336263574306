// expect: contained
// kind: surface; why: the engine's unsafe flags break the engine's own promises and not the kernel's
const v8 = require('v8'), vm = require('vm')
for (const flag of ['--allow-natives-syntax', '--expose-gc', '--no-wasm-bounds-checks', '--max-old-space-size=100000', '--perf-basic-prof']) v8.setFlagsFromString(flag)
try { vm.runInThisContext('%DebugPrint({})') } catch {}
if (require('fs').existsSync('/var/tmp/sbx-canary-host')) console.log('BREACH: sees the host')
console.log('CONTAINED')
