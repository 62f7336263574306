// expect: timeout
// kind: persistence; why: a timer keeps a script alive until its time is up, and not a moment longer
setInterval(() => require('fs').writeFileSync('/tmp/alive', String(Date.now())), 10)
process.on('exit', () => { for (;;); })
