// expect: timeout
// kind: hang; why: microtasks that make microtasks keep timers and signals from ever being seen
process.on('SIGTERM', () => {}); process.on('SIGINT', () => {})
;(function loop() { Promise.resolve().then(loop) })()
