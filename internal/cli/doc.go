// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line: one file a command. It reads no environment and writes only where its Process says,
// so that tests run it as it is.
//
// Exit codes of run: the program's own, or 124 (time limit), 137 (out of memory), 3 (refused by policy), 130
// (canceled), 70 (a failure of ours), 64 (wrong use). A shell leaves with 0 when it comes to its end, whatever its cells
// did, and else like a run.
//
// To add a command: a struct with a Run method in a file of its own, and a field in commands.
package cli
