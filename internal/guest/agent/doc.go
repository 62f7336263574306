// SPDX-License-Identifier: Apache-2.0

// Package agent is the guest: PID 1 of every Linux sandbox on every backend. It starts interpreters, processes and the
// file server, each confined, carries their output to the daemon, and reaps what dies. It never runs user code and
// never believes it: interpreters share their process with user code, so their frames are checked like a stranger's.
//
// It ends when the channel to the daemon ends, and with it, by the kernel's rule for PID 1, everything in the box.
//
// Goroutines: one reads the channel and never waits for a child; each child has one that waits for its end and one per
// stream. Output that the daemon does not take blocks the program that prints it and nothing else.
package agent
