// SPDX-License-Identifier: Apache-2.0
// process.stdout and process.stderr as frames, so that they keep their order with everything else that is shown.
'use strict';

const { Writable } = require('stream');
const { isUint8Array } = require('util').types;
const { kinds } = require('./channel.js');

const { from } = Buffer;

function install(channel) {
  for (const [name, kind, fd] of [['stdout', kinds.STDOUT, 1], ['stderr', kinds.STDERR, 2]]) {
    const stream = new Writable();
    // Without the state of a stream that writes: an interrupt in the middle would leave it waiting for ever.
    stream.write = (chunk, encoding, done) => {
      if (typeof chunk !== 'string' && !isUint8Array(chunk)) {
        throw new TypeError(`process.${name}.write takes text or bytes, not ${typeof chunk}`);
      }
      channel.text(kind, typeof chunk === 'string' ? from(chunk, typeof encoding === 'string' ? encoding : 'utf8') : chunk);
      const called = typeof encoding === 'function' ? encoding : done;
      if (called) process.nextTick(called);
      return true;
    };
    stream.end = (chunk, encoding, done) => {
      if (chunk !== undefined && typeof chunk !== 'function') stream.write(chunk, encoding, done);
      return stream;
    };
    stream.fd = fd;
    stream._type = 'pipe';
    stream._isStdio = true;
    stream.destroySoon = stream.destroy = function destroy(_error, done) { // nobody closes the process's own streams
      done?.(null);
      return this;
    };
    Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => stream });
  }
}

module.exports = { install };
