// SPDX-License-Identifier: Apache-2.0

// Package link is the daemon's end of a guest channel: sessions, processes and files of a sandbox over the frames of
// package wire. Every backend that has a guest shares it; what a backend itself must know and do is [Host].
//
// Everything that arrives is hostile. A frame that breaks the protocol ends the sandbox; a claim is passed on as a
// claim; ends, limits and signals come from the kernel through Host and from our own clock.
package link
