// SPDX-License-Identifier: Apache-2.0
// How cells reach modules: require, import(…) and import.meta, seen from the folder that the session began in.
'use strict';

const Module = require('module');
const path = require('path');
const { pathToFileURL } = require('url');
const { NAMES } = require('./cell.js');

function install(folder, typescript) {
  const file = path.join(folder, typescript ? 'cell.ts' : 'cell.js');
  const module = new Module(file, null);
  module.filename = file;
  module.paths = Module._nodeModulePaths(folder);
  // Compiled as if it lay in the folder: what it imports is looked for from there.
  module._compile('module.exports = { load: (name, options) => import(name, options), require, module };', path.join(folder, 'cell.cjs'));
  const { load, require: requireHere } = module.exports;
  module.exports = {};
  requireHere.main = process.mainModule = module; // code that asks whether it is the program is told so
  const here = typescript ? require('./typescript.js').loading(load, requireHere) : load;
  here.names = names;
  define(NAMES.load, here, false);
  define(NAMES.meta, { dirname: folder, resolve: (name) => resolve(requireHere, name) }, false);
  for (const [name, value] of Object.entries({ require: requireHere, module, exports: module.exports, __dirname: folder })) {
    define(name, value, true);
  }
  rename(file);
  return (name) => rename(path.join(folder, name));
}

// rename says which file the code is taken for.
function rename(file) {
  process.argv[1] = file;
  globalThis.module.filename = globalThis.module.id = file;
  define('__filename', file, true);
  Object.assign(globalThis[NAMES.meta], { url: pathToFileURL(file).href, filename: file });
}

function define(name, value, enumerable) {
  Object.defineProperty(globalThis, name, { value, enumerable, writable: true, configurable: true });
}

function resolve(requireHere, name) {
  const found = requireHere.resolve(name);
  return path.isAbsolute(found) ? pathToFileURL(found).href : found;
}

// names checks that a module has what is imported of it, as the engine does for modules.
function names(namespace, wanted, source) {
  for (const name of wanted) {
    if (!(name in namespace)) {
      throw new SyntaxError(`The requested module '${source}' does not provide an export named '${name}'`);
    }
  }
  return namespace;
}

module.exports = { install };
