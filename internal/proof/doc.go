// SPDX-License-Identifier: Apache-2.0

// Package proof attacks this host's own sandboxes and reports, limit by limit, what really holds: enforced, not
// enforced, or not supported, with what was seen and how to mend it. It believes no claim of a backend.
//
// # To add an attack
//
// A Python program in attacks/, which prints one line "held: ..." or "BROKEN: ..." unless the sandbox is to end it, and a
// row in the table of attacks.go that judges the record.
package proof
