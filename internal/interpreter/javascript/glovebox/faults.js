// SPDX-License-Identifier: Apache-2.0
// Describes what was thrown: name, value, and a traceback of user frames only.
'use strict';

const { inspect, types } = require('util');
const limits = require('./limits.js');
const { quote, object } = require('./channel.js');
const { cut } = require('./bundle.js');

const HERE = __dirname;
const MACHINERY = /^node:internal\/(process\/task_queues|timers)$/; // what calls callbacks back
const sources = new Map(); // the name of a cell in the engine -> its name and lines

// register makes a cell's lines known. Returns its name in the engine, which has no spaces; cells of one name are told
// apart, or a function of an older cell would be shown with the lines of a newer one.
function register(name, code) {
  let wanted = name;
  for (let count = 2; sources.get(encodeURI(wanted))?.code !== undefined && sources.get(encodeURI(wanted)).code !== code; count++) {
    wanted = `${name} (${count})`;
  }
  const key = encodeURI(wanted);
  if (sources.size >= limits.MAX_SOURCES) sources.delete(sources.keys().next().value);
  sources.set(key, { name: wanted, code });
  return key;
}

// install leaves our own frames out of every stack, and gives cells their names.
function install() {
  Error.prepareStackTrace = (error, frames) => {
    const lines = [];
    for (const frame of frames) {
      const file = frame.getScriptNameOrSourceURL() ?? '';
      if (file.startsWith(HERE) || file === 'node:inspector') break; // what is below has called the user's code
      if (MACHINERY.test(file)) continue;
      const source = sources.get(file);
      lines.push(`\n    at ${source ? `${frame}`.replace(file, () => source.name) : frame}`);
    }
    let head;
    try {
      head = Error.prototype.toString.call(error);
    } catch {
      head = '<error>';
    }
    return head + lines.join('');
  };
}

// describe returns the payload of an ERROR frame. It never throws. details are the engine's, of an error in a cell.
function describe(error, details) {
  let name = 'Uncaught', value, text;
  try {
    if (types.isNativeError(error) || error instanceof Error) {
      name = typeof error.name === 'string' && error.name ? error.name : 'Error';
      value = `${error.message}`;
    } else {
      value = inspect(error);
    }
  } catch {
    value = '<what was thrown cannot be shown>';
  }
  try {
    text = inspect(error, { maxStringLength: limits.MAX_TEXT, maxArrayLength: limits.MAX_INSPECT_ITEMS });
    if (text === `[${error?.stack}]`) text = error.stack;
    text = place(error, details) + text;
  } catch {
    text = `${name}: ${value}`;
  }
  return object({
    name: quote(cut(name, limits.MAX_ERROR_NAME)),
    value: quote(cut(value, limits.MAX_ERROR_VALUE)),
    traceback: quote(cut(`${text}\n`, limits.MAX_TRACEBACK)),
  });
}

// place shows the line of a cell that an error is about, as node does.
function place(error, details) {
  const stack = typeof error?.stack === 'string' ? error.stack : '';
  let found = null;
  for (const line of stack.split('\n')) {
    const at = /^\s+at (?:.*\()?(.+):(\d+):(\d+)\)?$/.exec(line);
    if (at) {
      found = [...sources.values()].findLast((source) => source.name === at[1]);
      return found ? pointed(found, Number(at[2]), Number(at[3])) : '';
    }
  }
  if (error?.place && sources.has(error.place.key)) return pointed(sources.get(error.place.key), error.place.line, error.place.column);
  if (details && sources.has(details.key)) { // the cell does not parse
    return pointed(sources.get(details.key), details.lineNumber + 1, details.columnNumber + 1);
  }
  return '';
}

function pointed(source, line, column) {
  const text = source.code.split(/\r\n|[\n\r\u2028\u2029]/)[line - 1];
  if (text === undefined || text.length > limits.MAX_SOURCE_LINE) return `${source.name}:${line}\n\n`;
  return `${source.name}:${line}\n${text}\n${' '.repeat(Math.max(0, column - 1))}^\n\n`;
}

module.exports = { register, install, describe };
