// SPDX-License-Identifier: Apache-2.0
// Makes bundles: one value in several forms, by MIME type, each bounded.
'use strict';

const { inspect, types } = require('util');
const limits = require('./limits.js');
const { quote, object, stringify } = require('./channel.js');

const DISPLAY = Symbol.for('Jupyter.display');
const MIME = /^[a-z]+\/[\w.+-]+$/;

// cut keeps the head and the tail of a long text.
function cut(text, most) {
  if (text.length <= most) return text;
  const half = most >> 1;
  return `${text.slice(0, half)}\n[${text.length - 2 * half} characters are left out]\n${text.slice(-half)}`;
}

class Bundle {
  #data = Object.create(null);
  #notices = [];

  get empty() {
    return Object.keys(this.#data).length === 0;
  }

  has(mime) {
    return mime in this.#data;
  }

  // add adds a form: text, bytes, or any value for a JSON type. What cannot be a form is left out.
  add(mime, form) {
    if (Object.keys(this.#data).length >= limits.MAX_FORMS) return;
    if (types.isUint8Array(form)) form = Buffer.from(form.buffer, form.byteOffset, form.byteLength).toString('base64');
    if (Array.isArray(form) && !mime.endsWith('json') && form.every((line) => typeof line === 'string')) form = form.join('');
    if (mime.endsWith('json')) this.addJSON(mime, form);
    else if (mime === 'text/plain') this.#addText(`${form}`);
    else if (typeof form === 'string') this.#bounded(mime, quote(form), isBinary(mime) ? limits.MAX_IMAGE : limits.MAX_MARKUP);
  }

  addJSON(mime, form) {
    const json = stringify(form);
    if (json !== undefined) this.#bounded(mime, json, limits.MAX_JSON_FORM);
  }

  #addText(text) {
    if (text.length > limits.MAX_TEXT) {
      this.#notices.push(['result.cut', `The text of a value has ${text.length} characters; its head and tail are shown.`]);
    }
    this.#data['text/plain'] = quote(cut(text, limits.MAX_TEXT));
  }

  #bounded(mime, json, limit) {
    if (json.length > limit) {
      this.#notices.push(['result.form_left_out',
        `The ${mime} form of a value was left out: ${json.length} bytes, at most ${limit} are sent.`]);
    } else {
      this.#data[mime] = json;
    }
  }

  tell(code, text) {
    this.#notices.push([code, text]);
  }

  send(channel, kind, fields = {}) {
    if (!this.empty) channel.send(kind, object({ ...fields, data: object(this.#data), metadata: '{}' }));
    for (const [code, text] of this.#notices) channel.notice(code, text);
  }
}

const isBinary = (mime) => (mime.startsWith('image/') && mime !== 'image/svg+xml') || mime === 'application/pdf';

// of returns the bundle of any value. What the value's own methods throw ends up as a notice.
function of(value) {
  const bundle = new Bundle();
  try {
    ask(bundle, value);
  } catch (error) {
    bundle.tell('repr.failed', `showing a value threw ${cut(String(error?.message ?? 'something'), 1000)}`);
  }
  if (!bundle.has('text/plain')) bundle.add('text/plain', plain(value));
  return bundle;
}

function ask(bundle, value) {
  const method = value !== null && typeof value === 'object' ? value[DISPLAY] : undefined;
  if (typeof method === 'function') {
    const forms = method.call(value);
    for (const mime of Object.keys(forms ?? {})) bundle.add(mime, forms[mime]);
  } else if (value !== null && typeof value === 'object' && isData(value)) {
    bundle.addJSON('application/json', value);
  }
}

// raw returns the bundle of an object that is one already: its keys are MIME types.
function raw(forms) {
  const bundle = new Bundle();
  for (const mime of Object.keys(forms)) bundle.add(mime, forms[mime]);
  return bundle;
}

function isRaw(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length > 0 && keys.every((key) => MIME.test(key));
}

// plain returns the text form of a value.
function plain(value) {
  try {
    return inspect(value, {
      depth: limits.MAX_INSPECT_DEPTH, maxArrayLength: limits.MAX_INSPECT_ITEMS, maxStringLength: 4 * limits.MAX_TEXT,
    });
  } catch (error) {
    return `<a value that cannot be shown: ${cut(String(error?.message ?? ''), 1000)}>`;
  }
}

// isData tells whether a value is made of JSON's own types, and small enough to be sent whole.
function isData(value, depth = 0, budget = { left: limits.MAX_JSON_ITEMS }) {
  if (--budget.left <= 0 || depth > limits.MAX_JSON_DEPTH) return false;
  switch (typeof value) {
    case 'boolean':
      return true;
    case 'number':
      return Number.isFinite(value);
    case 'string':
      return value.length <= limits.MAX_JSON_FORM;
    case 'object':
      break;
    default:
      return false;
  }
  if (value === null) return true;
  if (types.isProxy(value)) return false;
  if (Array.isArray(value)) return value.every((item) => isData(item, depth + 1, budget));
  const kind = Object.getPrototypeOf(value);
  if (kind !== Object.prototype && kind !== null) return false;
  return Object.values(value).every((item) => isData(item, depth + 1, budget));
}

module.exports = { of, raw, isRaw, isData, cut };
