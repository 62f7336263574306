// expect: contained
// kind: protocol; why: what the interpreter leaves among the globals harms only its own session
for (const name of Object.getOwnPropertyNames(globalThis).filter((n) => n.startsWith('__glovebox'))) { try { globalThis[name] = () => { throw new Error('x') } } catch {} delete globalThis[name] }
process.removeAllListeners('SIGINT'); process.removeAllListeners('beforeExit'); process.removeAllListeners('uncaughtException')
process.reallyExit = () => {}; process.emit = () => true
require('fs').writeSync(1, 'CONTAINED\n')
