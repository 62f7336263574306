// expect: timeout
// kind: hang; why: the same by process.nextTick
;(function loop() { process.nextTick(loop) })()
