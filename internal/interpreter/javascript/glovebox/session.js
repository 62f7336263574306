// SPDX-License-Identifier: Apache-2.0
// The loop: one cell in, its frames out.
//
// Cells are run by the engine's own inspector in the mode of a console: top-level await, and declarations that may be
// repeated. No port is opened for that.
'use strict';

const { Channel, Reader, kinds, quote, object, parse } = require('./channel.js');
const faults = require('./faults.js');
const bundles = require('./bundle.js');
const modules = require('./modules.js');
const streams = require('./streams.js');
const { Cells, load, endsWithExpression } = require('./cell.js');
const { Evaluator, Terminated } = require('./evaluator.js');
const interrupts = require('./interrupts.js');

const reallyExit = process.reallyExit.bind(process);
const turn = setImmediate;

// Exit codes as node and shells have them.
const UNSETTLED = 13;
const INTERRUPTED = 130;

const BROKEN = '{"name":"InterpreterBroken","traceback":"","value":"the code changed what the interpreter itself needs, so it '
  + 'cannot say how the cell ended; start a new session"}';

class Session {
  #language;
  #evaluator;
  #cells = new Cells();
  #queue = [];
  #running = null; // the cell under way
  #last = null; // the cell after which the process leaves, once its code is through
  #outcome = ['ok', 0]; // of the last cell
  #rename; // says which file the code is taken for

  constructor(language, descriptor) {
    this.#language = language;
    this.channel = new Channel(descriptor);
    this.#listen(descriptor);
  }

  start() {
    streams.install(this.channel);
    faults.install();
    this.#rename = modules.install(process.cwd(), this.#language === 'typescript');
    Object.defineProperty(globalThis, 'display', {
      value: (...values) => this.#display(values), writable: true, configurable: true,
    });
    this.#evaluator = new Evaluator();
    interrupts.install(() => this.channel.between(() => {
      if (this.#running !== null) this.#running.terminated = true;
      this.#evaluator.terminate();
    }));
    process.on('SIGINT', () => this.#interrupted());
    process.on('uncaughtException', (error) => this.#uncaught(error));
    process.on('beforeExit', () => this.#idle());
    // After every handler of the user's own, whenever that was added.
    const emit = process.emit;
    process.emit = (...event) => {
      const heard = Reflect.apply(emit, process, event);
      if (event[0] === 'exit') this.#exit(process.exitCode ?? event[1] ?? 0);
      return heard;
    };
    this.channel.send(kinds.READY, object({ language: quote(this.#language), version: quote(process.versions.node) }), 0);
  }

  // #listen reads cells. The channel keeps the process alive only between cells: a cell that waits for something that
  // cannot come is noticed by that.
  #listen(descriptor) {
    const { Socket } = require('net');
    const reader = new Reader();
    this.socket = new Socket({ fd: descriptor, readable: true, writable: false });
    const gone = () => reallyExit(0);
    this.socket.on('close', gone).on('end', gone).on('error', gone).on('data', (bytes) => {
      const messages = reader.take(bytes);
      if (messages === null) reallyExit(1);
      for (const message of messages) {
        if (message.kind === kinds.PREPARE) prepare(message.payload);
        if (message.kind === kinds.CELL) this.#queue.push(message);
        if (message.kind === kinds.FORK) this.channel.done('error', 1, message.cell); // threads do not live through a fork
      }
      turn(() => this.#next()); // an interrupt that came before the cell is not meant for it
    });
  }

  // One cell.

  #next() {
    if (this.#running !== null || this.#last !== null || this.#queue.length === 0) return;
    const { cell: id, payload } = this.#queue.shift();
    const cell = parse(payload.toString());
    const run = { id, cell, over: false };
    this.#running = run;
    this.channel.cell = id;
    interrupts.running(id);
    this.socket.unref();
    if (cell.last) this.#rename(cell.name || 'cell');
    this.#run(run).catch((error) => this.#fail(run, error));
  }

  async #run(run) {
    const { cell } = run;
    if (!cell.last) { // the last cell is ended, not interrupted
      const watched = interrupts.watch();
      load();
      await watched;
    }
    for (const [name, value] of Object.entries(cell.inputs ?? {})) {
      await this.#evaluate(`let ${name} = JSON.parse(${JSON.stringify(JSON.stringify(value))}); void 0`, 'input');
    }
    const value = await this.#value(cell, run);
    if (!run.over && value !== undefined) bundles.of(value).send(this.channel, kinds.RESULT);
    await new Promise(turn); // rejections that nobody handles are told of now
    this.#finish(run, 'ok', 0);
  }

  // #value runs the code and returns the value of its last expression; a promise is waited for.
  async #value(cell, run) {
    const key = faults.register(cell.name || 'cell', cell.code);
    let code = cell.code.replace(/^\ufeff/, '');
    if (this.#language === 'typescript') code = require('./typescript.js').strip(code, key);
    const { value } = await this.#evaluate(code, key);
    if (value === undefined || !endsWithExpression(code)) return undefined;
    run.waits = value instanceof Promise;
    return value;
  }

  async #evaluate(code, key) {
    const script = this.#cells.rewrite(code);
    try {
      return await this.#evaluator.run(script.code, key);
    } catch (error) {
      if (error.thrown instanceof SyntaxError) script.forget(); // it was not begun
      throw error;
    }
  }

  // #fail ends a cell by what it threw.
  #fail(run, error) {
    if (run.over) return;
    if (error === Terminated) {
      this.#afterTermination(run);
      return;
    }
    try {
      this.channel.send(kinds.ERROR, faults.describe(error.thrown ?? error, error.details));
    } catch {
      this.channel.send(kinds.ERROR, BROKEN, run.id);
    }
    if (this.#evaluator.broken) reallyExit(1);
    this.#finish(run, 'error', 1);
  }

  #finish(run, status, code) {
    if (run.over) return;
    run.over = true;
    this.#running = null;
    interrupts.running(0);
    if (run.cell.last) {
      this.#last = run;
      this.#outcome = [status, code];
      if (status !== 'ok') process.exit(code);
      return; // the process leaves when nothing is left to do, as node does
    }
    this.#return(run.cell);
    this.channel.flush();
    this.channel.done(status, code, run.id);
    this.channel.cell = 0;
    this.socket.ref();
    turn(() => this.#next());
  }

  // #return sends the values that were asked for.
  #return(cell) {
    for (const name of cell.return ?? []) {
      let found;
      try {
        found = this.#evaluator.read(name);
      } catch {
        this.channel.notice('value.missing', `There is no variable '${name.slice(0, 100)}' to return.`);
        continue;
      }
      const bundle = bundles.of(found);
      if (!bundle.has('application/json') && bundles.isData(found)) bundle.addJSON('application/json', found);
      bundle.send(this.channel, kinds.VALUE, { name: quote(name) });
    }
  }

  #display(values) {
    for (const value of values) {
      (bundles.isRaw(value) ? bundles.raw(value) : bundles.of(value)).send(this.channel, kinds.DISPLAY);
    }
  }

  // What happens to the process.

  #interrupted() {
    interrupts.noticed();
    const run = this.#running;
    if (run === null || (!run.terminated && process.listenerCount('SIGINT') > 1)) return; // the code has its own way to take it
    this.channel.send(kinds.ERROR, '{"name":"Interrupted","value":"the cell was interrupted","traceback":"Interrupted: the cell was interrupted\\n"}', run.id);
    this.#finish(run, 'interrupted', INTERRUPTED);
  }

  // #afterTermination waits for the signal's own listener, which is what ends the cell; a cell may have taken that away.
  #afterTermination(run) {
    setTimeout(() => this.#running === run && this.#interrupted(), 100);
  }

  // #uncaught is for what callbacks throw, and for rejections that nobody handles.
  #uncaught(error) {
    if (process.listenerCount('uncaughtException') > 1) return; // the code handles it
    if (this.#running !== null) {
      this.#fail(this.#running, error);
    } else if (this.#last !== null) {
      this.channel.send(kinds.ERROR, faults.describe(error));
      this.#outcome = ['error', 1];
      process.exit(1);
    } else {
      process.stderr.write(parse(faults.describe(error)).traceback);
    }
  }

  // #idle is called when nothing is left that could go on.
  #idle() {
    const run = this.#running;
    if (run === null) return;
    if (run.terminated) { // the loop has nothing to wait for, and so did not look for the signal
      this.#interrupted();
    } else if (run.waits) {
      this.#finish(run, 'ok', 0);
    } else if (run.cell.last) {
      process.stderr.write('Warning: the script awaits a promise that nothing is left to settle\n');
      this.#finish(run, 'exit', UNSETTLED);
    } else {
      this.#fail(run, new Error('the cell awaits a promise that nothing is left to settle'));
    }
  }

  #exit(code) {
    const run = this.#last ?? this.#running;
    if (run?.cell.last) {
      const [status, claimed] = this.#outcome;
      this.#return(run.cell);
      this.channel.flush();
      this.channel.done(status === 'error' ? status : code === 0 ? 'ok' : 'exit', status === 'error' ? claimed : code, run.id);
    }
    this.channel.flush();
  }
}

// prepare gives the process the variables of its caller. Options of the engine among them are those of its children.
function prepare(payload) {
  const { env } = parse(payload.toString());
  Object.assign(process.env, env);
  if (env.NODE_PATH !== undefined) require('module')._initPaths();
}

function serve(language, descriptor) {
  new Session(language, descriptor).start();
}

module.exports = { serve };
