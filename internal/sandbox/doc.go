// SPDX-License-Identifier: Apache-2.0

// Package sandbox is the core contract of Glovebox: what a backend, a sandbox, a session and a process are, which
// limits they take and how a run can end. Everything above it (engine, gateway) and below it (backends) speaks in
// these types and in nothing else.
//
// It imports the standard library alone, and it knows no tenant, no HTTP and no store.
//
// # Life of a sandbox
//
//	Create ──► Lease (once) ──► Open / Start (any number) ──► Stop ──► Workspace ──► Destroy
//	   │                                                       ▲                       ▲
//	   └── on failure nothing is left behind                   └── idempotent          └── idempotent, from any state
//
// # Three kinds of bad news
//
//   - A program's failure is a value: [Result] with an [End].
//   - What a backend cannot do is an [UnsupportedError] that names it; nothing falls back in silence.
//   - Our own failure is any other error; callers report it as [EndInfra].
//
// # To add a backend
//
//  1. A package backend/<name> that implements [Backend] (embed [Unsupported] for what it cannot do).
//  2. One line in daemon/backends.go and, if it has settings, a section in config.
//  3. A test file that hands sandboxtest.Run its constructor. The suite decides; its comments are the promises.
package sandbox
