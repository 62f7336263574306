// SPDX-License-Identifier: Apache-2.0
// Makes a script of a cell: the engine's own mode for consoles does all but modules. Lines stay where they are.
'use strict';

// Debian's node stands on this package, so it is there wherever node is.
const ACORN = '/usr/share/nodejs/acorn';
const OPTIONS = {
  ecmaVersion: 'latest', sourceType: 'module', allowAwaitOutsideFunction: true, allowReturnOutsideFunction: true,
  allowHashBang: true,
};

// The names under which a rewritten cell finds its way to modules.
const NAMES = { load: '__glovebox_import', meta: '__glovebox_meta' };

// Cells makes scripts of the cells of one session.
class Cells {
  #declared = new Map(); // what an earlier cell declared -> var, or let for all that is not one

  // rewrite turns import and export into what a script may say, and lets a cell declare again what another one did.
  rewrite(code) {
    const fresh = new Map();
    const forget = () => fresh.forEach((_, name) => this.#declared.delete(name));
    if (code.startsWith('#!')) code = `//${code.slice(2)}`;
    const { plain, attributes } = withoutAttributes(code);
    const tree = parse(plain);
    if (tree === null) return { code, forget }; // the engine says what is wrong with it
    const edits = [];
    for (const node of tree.body) {
      visitStatement(node, attributes, edits);
      this.#declare(node.declaration ?? node, edits, fresh);
    }
    if (/\bimport\b/.test(code)) visit(tree, edits);
    return { code: apply(code, edits), forget };
  }

  // #declare chooses a declaration that the engine takes again: a let after a let, a var after a var. So const is let.
  #declare(node, edits, fresh) {
    const note = (name, kind) => {
      if (!this.#declared.has(name)) {
        this.#declared.set(name, kind);
        fresh.set(name, kind);
      }
      return this.#declared.get(name);
    };
    const assign = (kind) => edits.push(
      { start: node.start, end: node.start, text: `${kind} ${node.id.name} = ` }, { start: node.end, end: node.end, text: ';' },
    );
    if (node.type === 'VariableDeclaration') {
      const wanted = node.kind === 'var' ? 'var' : 'let';
      const kinds = boundNames(node).map((name) => note(name, wanted));
      const kind = kinds.find((known) => known !== wanted) ?? wanted;
      if (kind !== node.kind) edits.push({ start: node.start, end: node.start + node.kind.length, text: kind.padEnd(node.kind.length) });
    } else if (node.type === 'FunctionDeclaration' && node.id) {
      if (note(node.id.name, 'var') === 'let') assign('let');
    } else if (node.type === 'ClassDeclaration' && node.id) {
      if (note(node.id.name, 'let') === 'var') assign('var');
    } else if (node.type === 'ImportDeclaration') {
      for (const { local } of node.specifiers) note(local.name, 'let');
    }
  }
}

// boundNames returns the names that a declaration declares, also by patterns.
function boundNames(node) {
  switch (node?.type) {
    case 'Identifier':
      return [node.name];
    case 'VariableDeclaration':
      return node.declarations.flatMap((declaration) => boundNames(declaration.id));
    case 'ObjectPattern':
      return node.properties.flatMap((property) => boundNames(property.value ?? property.argument));
    case 'ArrayPattern':
      return node.elements.flatMap(boundNames);
    case 'AssignmentPattern':
      return boundNames(node.left);
    case 'RestElement':
      return boundNames(node.argument);
    default:
      return [];
  }
}

// endsWithExpression tells whether the value of a cell is that of a last expression, and not what a loop left.
function endsWithExpression(code) {
  const tree = parse(code);
  if (tree === null) return true;
  const last = tree.body.findLast((node) => node.type !== 'EmptyStatement');
  return last?.type === 'ExpressionStatement' && last.directive !== 'use strict';
}

// load reads the parser in, for who has a moment to spare.
const load = () => void require(ACORN);

function parse(code) {
  try {
    return require(ACORN).parse(code, OPTIONS);
  } catch {
    return null;
  }
}

// withoutAttributes blanks `with { type: 'json' }`, which the parser does not know yet. It returns where each stood.
function withoutAttributes(code) {
  const attributes = new Map(); // the end of the module's name -> the text, and its own end
  const pattern = /((?:from|import)\s*(?:'[^'\n]*'|"[^"\n]*"))(\s+(?:with|assert)\s*)(\{[^{}]*\})/g;
  const plain = code.replace(pattern, (whole, head, word, text, at) => {
    attributes.set(at + head.length, { text, end: at + whole.length });
    return head + `${word}${text}`.replace(/[^\n]/g, ' ');
  });
  return { plain, attributes };
}

function visitStatement(node, attributes, edits) {
  const options = attributes.get(node.source?.end);
  const load = () => `await ${NAMES.load}(${node.source.raw}${options ? `, {with: ${options.text}}` : ''})`;
  const replace = (start, end, text) => edits.push({ start, end: Math.max(end, options?.end ?? 0), text });
  switch (node.type) {
    case 'ImportDeclaration':
      replace(node.start, node.end, bindings(node, load()));
      break;
    case 'ExportAllDeclaration':
      replace(node.start, node.end, `${load()};`);
      break;
    case 'ExportNamedDeclaration':
      if (node.declaration) replace(node.start, node.declaration.start, '');
      else replace(node.start, node.end, node.source ? `${load()};` : ';');
      break;
    case 'ExportDefaultDeclaration':
      exportDefault(node.declaration, node, replace);
      break;
    default:
  }
}

function exportDefault(declaration, node, replace) {
  const named = /^(Function|Class)Declaration$/.test(declaration.type) && declaration.id;
  if (named) {
    replace(node.start, declaration.start, '');
  } else {
    replace(node.start, declaration.start, ';(');
    replace(declaration.end, declaration.end, ')');
  }
}

// bindings declares the names of an import.
function bindings(node, load) {
  const names = [];
  let whole = null;
  for (const specifier of node.specifiers) {
    if (specifier.type === 'ImportNamespaceSpecifier') {
      whole = specifier.local.name;
    } else {
      const key = specifier.type === 'ImportDefaultSpecifier' ? 'default' : specifier.imported.name ?? specifier.imported.value;
      names.push([key, specifier.local.name]);
    }
  }
  if (whole === null && names.length === 0) return `${load};`;
  const keys = JSON.stringify(names.map(([key]) => key));
  const pattern = `{${names.map(([key, name]) => `${JSON.stringify(key)}: ${name}`).join(', ')}}`;
  if (whole === null) return `let ${pattern} = ${NAMES.load}.names(${load}, ${keys}, ${node.source.raw});`;
  return `let ${whole} = ${load}${names.length ? `, ${pattern} = ${whole}` : ''};`;
}

// visit finds import(…) and import.meta anywhere.
function visit(node, edits) {
  if (node.type === 'ImportExpression') {
    edits.push({ start: node.start, end: node.start + 'import'.length, text: NAMES.load });
  } else if (node.type === 'MetaProperty' && node.meta.name === 'import') {
    edits.push({ start: node.start, end: node.end, text: NAMES.meta });
  }
  for (const child of Object.values(node)) {
    if (Array.isArray(child)) child.forEach((item) => item?.type && visit(item, edits));
    else if (typeof child?.type === 'string') visit(child, edits);
  }
}

function apply(code, edits) {
  edits.sort((a, b) => b.start - a.start || b.end - a.end);
  for (const { start, end, text } of edits) {
    const lines = code.slice(start, end).split('\n').length - 1;
    code = code.slice(0, start) + text + '\n'.repeat(Math.max(0, lines - (text.split('\n').length - 1))) + code.slice(end);
  }
  return code;
}

module.exports = { Cells, load, endsWithExpression, NAMES };
