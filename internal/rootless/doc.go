// SPDX-License-Identifier: Apache-2.0

// Package rootless brings a program that was started by a usual user into a user and a mount namespace of its own, in
// which it is root: of its own files, of the uids that /etc/subuid grants that user, and of nothing else on the host.
//
// A program of several threads cannot enter a user namespace, so it is started a second time, inside: the first process
// maps the uids, passes signals on and ends with the second one's exit code.
//
// Without subordinate uids, or without the tools that map them (newuidmap, newgidmap), one uid is mapped: the user's own.
// Then sandboxes cannot have uids of their own, and Namespace says why.
package rootless
