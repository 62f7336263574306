// expect: timeout
// kind: hang; why: a thread that waits for ever ends by time
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
