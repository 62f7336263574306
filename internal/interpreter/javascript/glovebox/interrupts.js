// SPDX-License-Identifier: Apache-2.0
// Interrupts of code that never returns; see watcher.js.
'use strict';

const path = require('path');
const limits = require('./limits.js');

const seen = new Int32Array(new SharedArrayBuffer(8)); // how many interrupts the main thread has noticed, and the running cell
const ENTRY = '__glovebox_terminate'; // what the watcher calls on the main thread
let ready = null;

// install says how to end what runs.
function install(terminate) {
  Object.defineProperty(globalThis, ENTRY, { value: terminate, configurable: true });
}

// watch starts the watcher, once, and returns when it watches.
function watch() {
  ready ??= new Promise((resolve) => {
    const { Worker } = require('worker_threads');
    const watcher = new Worker(path.join(__dirname, 'watcher.js'), {
      workerData: { seen, patience: limits.INTERRUPT_PATIENCE_MS, entry: ENTRY }, execArgv: ['--no-deprecation'], env: {},
    });
    watcher.once('message', () => { watcher.unref(); resolve(); });
    watcher.on('error', resolve); // no thread to be had: interrupts still reach code that waits
  });
  return ready;
}

// running says which cell runs, 0 for none: an interrupt of one must not end the next.
const running = (cell) => Atomics.store(seen, 1, cell | 0);

const noticed = () => Atomics.add(seen, 0, 1);

module.exports = { install, watch, running, noticed };
