// SPDX-License-Identifier: Apache-2.0
// A thread that ends what the main thread runs when that does not notice an interrupt by itself: a signal's listener waits
// until the running code returns, and `while (true) {}` never does.
'use strict';

const { Session } = require('inspector');
const { parentPort, workerData } = require('worker_threads');
const { Signal } = process.binding('signal_wrap');

const { seen, patience, entry } = workerData;
const signal = new Signal();
signal.onsignal = () => {
  const before = Atomics.load(seen, 0);
  setTimeout(() => {
    if (Atomics.load(seen, 0) === before) terminate();
  }, patience);
};
signal.start(2); // SIGINT
parentPort.postMessage('watching');

// terminate asks the main thread, in the middle of what it runs, to end that: it knows whether a frame is being written.
// A session that stays connected would hold up the end of the process.
function terminate() {
  const session = new Session();
  session.connectToMainThread();
  session.post('Runtime.evaluate', { expression: `${entry}()` }, (error, answer) => {
    if (error || answer.exceptionDetails) session.post('Runtime.terminateExecution', () => session.disconnect());
    else session.disconnect();
  });
}
