// SPDX-License-Identifier: Apache-2.0
// Loads TypeScript files that a cell imports.

import { createRequire } from 'node:module';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const { strip } = createRequire(import.meta.url)('./typescript.js');

// resolve finds ./util as ./util.ts, which is how TypeScript is written.
export async function resolve(specifier, context, next) {
  if (/^\.{0,2}\//.test(specifier) && context.parentURL?.startsWith('file:')) {
    for (const extension of ['', '.ts', '.mts', '/index.ts']) {
      const url = new URL(specifier + extension, context.parentURL);
      if (/\.m?ts$/.test(url.pathname) && existsSync(fileURLToPath(url))) return { url: url.href, shortCircuit: true };
    }
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!/\.m?ts$/.test(url)) return next(url, context);
  return { format: 'module', shortCircuit: true, source: strip(readFileSync(fileURLToPath(url), 'utf8')) };
}
