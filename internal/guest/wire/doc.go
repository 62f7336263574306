// SPDX-License-Identifier: Apache-2.0

// Package wire is the one protocol that crosses the wall: between the daemon and the guest (PID 1 of a sandbox) over
// any byte stream, and between the guest and the interpreters it starts over descriptor 3. There is one encoder and
// one decoder in Go; each interpreter has its own small one, held to the same golden files.
//
// # Frame
//
//	offset  size  field
//	0       4     length of the payload, big endian, at most MaxPayload
//	4       1     protocol version, Version
//	5       1     kind
//	6       1     flags: bit 0 (FlagMore) = the message goes on in the next frame of this kind and id
//	7       1     reserved, 0
//	8       4     id, big endian: the request, cell or process that the message belongs to; 0 = none
//	12      n     payload
//
// A message is one or more frames of one kind and id; at most MaxMessage bytes in all, and at most MaxOpen messages
// may be open at once. Stream kinds (stdout, stderr, stdin, file data) never use FlagMore: each of their frames is
// whole. All other payloads are JSON objects.
//
// # Trust
//
// The daemon treats every byte from a guest as hostile, and so does the guest with the bytes of an interpreter, since
// user code shares the interpreter's process. A stream that breaks a rule of this page is an error of that stream:
// the reader ends the sandbox or the session, and never guesses.
package wire
