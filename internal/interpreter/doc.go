// SPDX-License-Identifier: Apache-2.0

// Package interpreter holds the programs that run code inside a sandbox, one a language, and the table of languages.
//
// A program is started by the guest with descriptor 3 connected to it and speaks the frames of package wire: it reads
// cells and answers with output, values, errors and charts. Its files are embedded here and put into the image at
// build time, under [Root]; nothing is copied when a sandbox starts.
//
// Python's program is in python/: main.py, which leads to the package glovebox beside it. It is a small shell of its
// own rather than IPython's, because starting IPython takes longer than most runs; IPython is loaded by the cells that
// use magics. What differs from a Jupyter notebook is listed in docs/notebook.md.
//
// JavaScript's is in javascript/, and TypeScript's is the same with a step before it. Cells are run by the engine's own
// inspector in its mode for consoles, in process and without a port. Bash's is in bash/: a driver in Python, which speaks
// the frames, and a shell that reads the cells as one long script. docs/languages.md says how to add a language.
//
// User code shares its process with these programs. What they send is the program's claim, never a measurement.
package interpreter
