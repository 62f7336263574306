// expect: contained
// kind: surface; why: a crash of the engine ends this sandbox alone, and leaves no core
const { spawnSync } = require('child_process'), fs = require('fs')
const r = spawnSync(process.execPath, ['--allow-natives-syntax', '-e', '%SystemBreak()'])
spawnSync(process.execPath, ['-e', 'process.abort()']); spawnSync(process.execPath, ['-e', 'process.kill(process.pid, "SIGSEGV")'])
const cores = ['.', '/tmp'].flatMap((dir) => fs.readdirSync(dir)).filter((name) => /^core/.test(name))
if (cores.length) console.log('BREACH: cores', cores)
console.log('CONTAINED')
