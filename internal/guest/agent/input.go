// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"
)

var (
	errNoInput = errors.New("the process has no open standard input")
	errDeaf    = errors.New("the process does not read its standard input: wait and send again")
)

// endOfInput is what a terminal takes for the end of its input, at the beginning of a line.
const endOfInput = "\x04"

// input is a process's standard input. One piece at a time waits for the process to read it; a second one is refused, so that
// a process that does not read holds little of the guest.
type input struct {
	file     *os.File
	terminal bool
	// turn holds a token while nobody writes; closed is guarded by it.
	turn   chan struct{}
	closed bool
}

func newInput(file *os.File, terminal bool) *input {
	in := &input{file: file, terminal: terminal, turn: make(chan struct{}, 1)}
	in.turn <- struct{}{}
	return in
}

// put writes a piece and returns when the process's pipe has taken it.
func (in *input) put(p []byte) error {
	return in.alone(func() error {
		_, err := in.file.Write(p)
		return err
	})
}

// end closes standard input. A terminal stays: it is told that a person has ended the input.
func (in *input) end() error {
	return in.alone(func() error {
		if in.terminal {
			_, err := in.file.WriteString(endOfInput)
			return err
		}
		in.closed = true
		return in.file.Close()
	})
}

func (in *input) alone(do func() error) error {
	if in == nil {
		return errNoInput
	}
	select {
	case <-in.turn:
		defer func() { in.turn <- struct{}{} }()
	default:
		return errDeaf
	}
	if in.closed {
		return errNoInput
	}
	if err := do(); err != nil {
		in.closed = true
		return errNoInput
	}
	return nil
}

// abandon gives the file up when the process is gone; who waits for it is let go.
func (in *input) abandon() {
	if in != nil {
		_ = in.file.Close() // closed already is fine
	}
}
