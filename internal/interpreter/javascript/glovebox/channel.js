// SPDX-License-Identifier: Apache-2.0
// The channel to the guest: frames in and out, in exact order.
//
// What it needs of the language is kept here when it is loaded, since user code can replace everything later.
'use strict';

const limits = require('./limits.js');
const { writeSync } = require('fs');

const kinds = {
  CELL: 0x01, PREPARE: 0x02, FORK: 0x03, READY: 0x11, STDOUT: 0x20, STDERR: 0x21, DISPLAY: 0x22, RESULT: 0x23, ERROR: 0x24, NOTICE: 0x25,
  VALUE: 0x26, DONE: 0x2f,
};

const FLAG_MORE = 1;
const { from, alloc, concat } = Buffer;
const { stringify, parse } = JSON;
const { now } = performance;
const clock = now.bind(performance);
const wait = Atomics.wait;
const leave = process.reallyExit.bind(process);
const after = setTimeout;
const pause = new Int32Array(new SharedArrayBuffer(4));

// quote writes a text as JSON. A text has no toJSON that could be asked.
const quote = (text) => stringify(`${text}`);

// object writes an object of fields that are JSON already.
function object(fields) {
  const parts = [];
  for (const name of Object.keys(fields)) {
    if (fields[name] !== undefined) parts[parts.length] = `${quote(name)}:${fields[name]}`;
  }
  return `{${parts.join(',')}}`;
}

class Channel {
  #descriptor;
  #gathered = [];
  #size = 0;
  #kind = 0;
  #credit = limits.DIRECT_WRITES;
  #credited = 0;
  #timer;
  #writing = 0;
  #later = null;
  cell = 0; // the id of the running cell, 0 between cells

  constructor(descriptor) {
    this.#descriptor = descriptor;
  }

  // between calls a function at once, or when the frame that is being written is whole.
  between(call) {
    if (this.#writing === 0) call();
    else this.#later = call;
  }

  #wholly(write) {
    this.#writing++;
    write();
    if (--this.#writing === 0 && this.#later !== null) {
      const call = this.#later;
      this.#later = null;
      call();
    }
  }

  // text sends bytes of a text stream; small writes in quick succession are gathered.
  text(kind, bytes) {
    this.#wholly(() => this.#gather(kind, bytes));
  }

  #gather(kind, bytes) {
    if (kind !== this.#kind) this.flush();
    this.#kind = kind;
    if (bytes.length <= limits.GATHER_BYTES && !this.#maySend()) {
      this.#gathered[this.#gathered.length] = bytes;
      this.#size += bytes.length;
      if (this.#size >= limits.GATHER_BYTES) this.flush();
      else this.#timer ??= after(() => this.flush(), limits.GATHER_MS).unref();
      return;
    }
    this.flush();
    this.#text(kind, bytes);
  }

  // flush sends all text that is held back.
  flush() {
    if (this.#size > 0) this.#wholly(() => this.#flush());
  }

  #flush() {
    const whole = concat(this.#gathered);
    this.#gathered = [];
    this.#size = 0;
    this.#timer = undefined;
    this.#text(this.#kind, whole);
  }

  // send sends a message whose payload is JSON already, after all text before it.
  send(kind, json, cell = this.cell) {
    this.#wholly(() => this.#send(kind, json, cell));
  }

  #send(kind, json, cell) {
    this.flush();
    let payload = from(json);
    if (payload.length > limits.MAX_MESSAGE) {
      kind = kinds.NOTICE;
      payload = from(object({
        code: quote('output.too_large'),
        text: quote(`An output of ${payload.length} bytes was left out: at most ${limits.MAX_MESSAGE} bytes can be sent at once.`),
      }));
    }
    let start = 0;
    do {
      const part = payload.subarray(start, start + limits.MAX_PAYLOAD);
      start += part.length;
      this.#frame(kind, start < payload.length ? FLAG_MORE : 0, cell, part);
    } while (start < payload.length);
  }

  notice(code, text) {
    this.send(kinds.NOTICE, object({ code: quote(code), text: quote(text) }));
  }

  done(status, code, cell) {
    this.send(kinds.DONE, `{"status":"${status}","exit_code":${code}}`, cell);
  }

  #maySend() {
    const at = clock();
    const earned = Math.floor((at - this.#credited) / limits.DIRECT_REFILL_MS);
    if (earned > 0) {
      this.#credit = Math.min(limits.DIRECT_WRITES, this.#credit + earned);
      this.#credited = at;
    }
    if (this.#credit === 0) return false;
    this.#credit--;
    return true;
  }

  #text(kind, bytes) {
    for (let start = 0; start < bytes.length; start += limits.MAX_PAYLOAD) {
      this.#frame(kind, 0, this.cell, bytes.subarray(start, start + limits.MAX_PAYLOAD));
    }
  }

  #frame(kind, flags, cell, part) {
    const frame = alloc(limits.HEADER_SIZE + part.length);
    frame.writeUInt32BE(part.length, 0);
    frame[4] = limits.VERSION;
    frame[5] = kind;
    frame[6] = flags;
    frame.writeUInt32BE(cell, 8);
    frame.set(part, limits.HEADER_SIZE);
    for (let at = 0; at < frame.length;) {
      try {
        at += writeSync(this.#descriptor, frame, at);
      } catch (error) {
        if (error.code === 'EAGAIN') wait(pause, 0, 0, limits.WRITE_PAUSE);
        else if (error.code !== 'EINTR') leave(1); // the guest is gone, and so is every reason to run
      }
    }
  }
}

// Reader puts messages together out of the bytes that arrive.
class Reader {
  #left = alloc(0);
  #whole = [];
  #skip = 0;

  // take returns the messages that are complete with these bytes, and null for bytes that are no frames.
  take(bytes) {
    const messages = [];
    let left = this.#left.length ? concat([this.#left, bytes]) : bytes;
    while (left.length >= this.#skip + limits.HEADER_SIZE) {
      left = left.subarray(this.#skip);
      this.#skip = 0;
      const size = left.readUInt32BE(0);
      if (left[4] !== limits.VERSION || size > limits.MAX_PAYLOAD) return null;
      if (left.length < limits.HEADER_SIZE + size) break;
      this.#whole.push(left.subarray(limits.HEADER_SIZE, limits.HEADER_SIZE + size));
      if (!(left[6] & FLAG_MORE)) {
        messages.push({ kind: left[5], cell: left.readUInt32BE(8), payload: concat(this.#whole) });
        this.#whole = [];
      }
      if (left[5] === kinds.FORK) this.#skip = 1; // the byte that carries descriptors
      left = left.subarray(limits.HEADER_SIZE + size);
    }
    this.#left = left;
    return messages;
  }
}

module.exports = { Channel, Reader, kinds, quote, object, stringify, parse };
