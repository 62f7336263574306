// SPDX-License-Identifier: Apache-2.0
// Takes the types out of TypeScript, without checking them and without moving lines.
'use strict';

const fs = require('fs');
const Module = require('module');

const SUCRASE = '/usr/share/glovebox/node_modules/sucrase';

// strip returns a cell as JavaScript. An import that this cell does not use may be for the next one, so it stays; types
// are imported with `import type`, or are erased when they are used as types alone.
function strip(code, key) {
  return transform(code, [], key);
}

function transform(code, more, key) {
  try {
    return require(SUCRASE).transform(code, {
      transforms: ['typescript', ...more], disableESTransforms: true, keepUnusedImports: more.length === 0,
    }).code;
  } catch (error) {
    throw syntaxError(error, key);
  }
}

// syntaxError makes what the transpiler throws look like the engine's own; it knows a line and a column.
function syntaxError(error, key) {
  if (error.code === 'MODULE_NOT_FOUND') return new Error('this image has no TypeScript: build it with the package sucrase');
  const made = new SyntaxError(String(error.message).replace(/^Error transforming [^:]*: /, '').replace(/ \(\d+:\d+\)$/, ''));
  made.stack = `SyntaxError: ${made.message}`;
  if (error.loc) {
    const place = { key, line: error.loc.line, column: error.loc.column };
    Object.defineProperty(made, 'place', { value: place, enumerable: false });
  }
  return made;
}

// loading makes import(…) and require know TypeScript files. The import hook runs in a thread of its own, so it is there
// only once a TypeScript file is imported.
function loading(load, requireHere) {
  const required = (module, file) => module._compile(transform(fs.readFileSync(file, 'utf8'), ['imports']), file);
  for (const extension of ['.ts', '.cts']) requireHere.extensions[extension] = required;
  let registered = false;
  return (name, options) => {
    if (!registered && /^(\.|\/|file:)/.test(name) && !/\.(m?js|cjs|json|node|wasm)$/.test(name)) {
      registered = true;
      Module.register('./hooks.mjs', `file://${__filename}`);
    }
    return load(name, options);
  };
}

module.exports = { strip, loading };
