// SPDX-License-Identifier: Apache-2.0

// Package engine is the use case: it runs one piece of code in a sandbox of its own and keeps what came of it. It alone
// orders the steps:
//
//	validate ─ policy ─ wait for a place ─ create ─ lease ─ open ─ exec ─ stop ─ artifacts ─ usage ─ destroy ─ record
//
// It knows no HTTP and no particular backend. What it promises:
//
//   - A program's failure is a record with a status; our own failure is a record with status infra; a request that
//     cannot be carried out is a [Problem], and then nothing was started.
//   - A sandbox is destroyed in every case, also when the caller has gone.
//   - Printing too much never kills a run: both ends of each stream stay inline, totals are told, and the whole text up
//     to Limits.Output is a file. Memory does not grow with what is printed.
//   - Everything that comes out of a sandbox is checked here before anyone else sees it (bundle.go).
//   - A slow reader never stops a program: events wait on disk (feed.go).
package engine
