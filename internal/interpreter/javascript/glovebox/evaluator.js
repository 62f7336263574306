// SPDX-License-Identifier: Apache-2.0
// Runs code in the global scope by the engine's own inspector, and brings real values out of it.
'use strict';

const inspector = require('inspector');

// Terminated is thrown for code that was ended from outside.
const Terminated = Symbol('terminated');

// Thrown carries whatever the code threw, and what the engine says about where.
class Thrown {
  constructor(thrown, details) {
    this.thrown = thrown;
    this.details = details;
  }
}

const GROUP = 'glovebox';

class Evaluator {
  #session = new inspector.Session();
  #holder = { value: undefined };
  #handle;
  broken = false; // no code can be run any more

  constructor() {
    this.#session.connect();
    // The engine names objects by handles; one of ours takes values out by a function that is called with them.
    globalThis.__glovebox_holder = this.#holder;
    this.#post('Runtime.evaluate', { expression: '__glovebox_holder' }, (_, answer) => {
      this.#handle = answer.result.objectId;
    });
    delete globalThis.__glovebox_holder;
  }

  // run returns the value of the code's last expression in a box: a promise is a value, too. key is its name in stacks.
  run(code, key) {
    const expression = `${code}\n//# sourceURL=${key}`;
    return new Promise((resolve, reject) => {
      this.#post('Runtime.evaluate', { expression, replMode: true, awaitPromise: true, objectGroup: GROUP }, (error, answer) => {
        this.#settle(error, answer, key, (value) => resolve({ value }), reject);
      });
    });
  }

  // terminate ends the code that runs now.
  terminate() {
    this.#post('Runtime.terminateExecution');
  }

  // read returns the value of a variable.
  read(name) {
    let found, failed;
    this.#post('Runtime.evaluate', { expression: name, objectGroup: GROUP }, (error, answer) => {
      this.#settle(error, answer, name, (value) => { found = value; }, (reason) => { failed = reason; });
    });
    if (failed) throw failed;
    return found;
  }

  #settle(error, answer, key, resolve, reject) {
    if (error && /terminated/.test(error.message)) {
      reject(Terminated);
    } else if (error) { // inspector.close() ends ours for good
      this.broken = true;
      reject(new Thrown(new Error('the code closed the inspector that runs it, so the session ends here'), {}));
      return;
    } else if (answer.exceptionDetails) {
      const { exception, lineNumber, columnNumber } = answer.exceptionDetails;
      reject(new Thrown(this.#take(exception), { key, lineNumber, columnNumber }));
    } else {
      resolve(this.#take(answer.result));
    }
    this.#post('Runtime.releaseObjectGroup', { objectGroup: GROUP });
  }

  // #take returns the value that the engine describes.
  #take({ objectId, unserializableValue, value }) {
    const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value };
    this.#post('Runtime.callFunctionOn', {
      objectId: this.#handle, functionDeclaration: 'function (value) { this.value = value; }', arguments: [argument],
    });
    const taken = this.#holder.value;
    this.#holder.value = undefined;
    return taken;
  }

  #post(...message) {
    // A session writes its messages as JSON. What user code has to say about that must not reach them.
    delete Object.prototype.toJSON;
    delete Array.prototype.toJSON;
    this.#session.post(...message);
  }
}

module.exports = { Evaluator, Terminated };
