// SPDX-License-Identifier: Apache-2.0

package wire

import "fmt"

// Kind says what a message is.
type Kind uint8

// The kinds. Numbers are the format: they are never reused.
const (
	// Interpreter channel, guest to interpreter.
	KindCell    Kind = 0x01 // Cell: run this
	KindPrepare Kind = 0x02 // Prepare: to an interpreter, before its first cell
	KindFork    Kind = 0x03 // Empty: fork yourself; the sibling's descriptors come beside one byte behind the message

	// Interpreter channel, interpreter to guest, and on from guest to daemon with the request's id.
	KindReady   Kind = 0x11 // Ready: the interpreter can take a cell
	KindStdout  Kind = 0x20 // raw bytes
	KindStderr  Kind = 0x21 // raw bytes
	KindDisplay Kind = 0x22 // sandbox.Bundle
	KindResult  Kind = 0x23 // sandbox.Bundle
	KindError   Kind = 0x24 // sandbox.Fault
	KindNotice  Kind = 0x25 // sandbox.Notice
	KindValue   Kind = 0x26 // Value

	// Output that belongs to no running cell, guest to daemon, with the session's id.
	KindBackgroundStdout Kind = 0x28 // raw bytes
	KindBackgroundStderr Kind = 0x29 // raw bytes

	KindDone Kind = 0x2f // Done: the cell is over

	// Guest channel, daemon to guest.
	KindHello     Kind = 0x40 // Hello, both ways, first message
	KindOpen      Kind = 0x41 // Open: start an interpreter
	KindExec      Kind = 0x42 // Exec: a cell for a session
	KindInterrupt Kind = 0x43 // Target
	KindClose     Kind = 0x44 // Target
	KindStart     Kind = 0x45 // Start: a plain process
	// 0x46 was standard input that nobody answered.
	KindStdinClose  Kind = 0x47 // Target
	KindSignal      Kind = 0x48 // Signal
	KindResize      Kind = 0x49 // Resize: the size of a terminal
	KindFile        Kind = 0x4a // File: an operation on files
	KindFileData    Kind = 0x4b // raw bytes of the file operation of this id, both ways
	KindFileEnd     Kind = 0x4c // Empty: end of the file's bytes, both ways
	KindPing        Kind = 0x4d // Empty
	KindExited      Kind = 0x4e // Exited: a forked interpreter, which is no child of the guest, has ended
	KindForkSession Kind = 0x4f // Target: fork an idle interpreter; its Reply comes when the sibling is ready
	KindInput       Kind = 0x50 // Input: standard input of a process; its Reply comes when the process's pipe took it

	// Guest channel, guest to daemon.
	KindReply Kind = 0x60 // Reply: the request of this id is done
	KindEnd   Kind = 0x61 // End: the cell or process of this id is over, after its last event
)

// Stream reports whether payloads of the kind are raw bytes.
func (k Kind) Stream() bool {
	switch k {
	case KindStdout, KindStderr, KindBackgroundStdout, KindBackgroundStderr, KindFileData:
		return true
	default:
		return false
	}
}

// Known reports whether the protocol has this kind.
func (k Kind) Known() bool {
	switch {
	case k == KindCell, k == KindPrepare, k == KindFork, k == KindReady, k >= KindStdout && k <= KindValue, k == KindDone:
		return true
	case k == KindBackgroundStdout, k == KindBackgroundStderr, k == KindReply, k == KindEnd:
		return true
	case k >= KindHello && k <= KindInput && k != 0x46:
		return true
	default:
		return false
	}
}

func (k Kind) String() string { return fmt.Sprintf("kind 0x%02x", uint8(k)) }
