// SPDX-License-Identifier: Apache-2.0
// A thread that ends what the main thread runs when that does not notice an interrupt by itself: a signal's listener waits
// until the running code returns, and `while (true) {}` never does.
'use strict';

const { Session } = require('inspector');
const { parentPort, workerData } = require('worker_threads');
const { Signal } = process.binding('signal_wrap');

const { seen, patience, entry } = workerData;
const signal = new Signal();
let latest = null; // what the last interrupt found; several in quick succession end one thing once
signal.onsignal = () => {
  const isWaiting = latest !== null;
  latest = { noticed: Atomics.load(seen, 0), cell: Atomics.load(seen, 1) };
  if (!isWaiting) setTimeout(judge, patience);
};

function judge() {
  const { noticed, cell } = latest;
  latest = null;
  if (cell !== 0 && Atomics.load(seen, 0) === noticed && Atomics.load(seen, 1) === cell) terminate();
}

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
