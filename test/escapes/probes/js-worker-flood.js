// expect: limit
// kind: resource; why: threads count against the limit of processes, and their heaps against that of memory
const { Worker } = require('worker_threads')
for (let i = 0; i < 500; i++) new Worker('setInterval(() => {}, 1000)', { eval: true })
