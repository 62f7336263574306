// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"
	"sync"
)

// inputQueue is how many frames of standard input may wait for a process to read them.
const inputQueue = 64

var (
	errNoInput   = errors.New("the process has no open standard input")
	errInputFull = errors.New("the process does not read its standard input: wait and send again")
)

// input feeds a process's standard input without ever making the caller wait.
type input struct {
	mu     sync.Mutex
	queue  chan []byte
	closed bool
}

func newInput(file *os.File) *input {
	in := &input{queue: make(chan []byte, inputQueue)}
	go func() {
		defer file.Close()
		for p := range in.queue {
			if _, err := file.Write(p); err != nil {
				return
			}
		}
	}()
	return in
}

func (in *input) put(p []byte) error {
	if in == nil {
		return errNoInput
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return errNoInput
	}
	select {
	case in.queue <- p:
		return nil
	default:
		return errInputFull
	}
}

// end closes standard input after what was put is written.
func (in *input) end() error {
	if in == nil {
		return errNoInput
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.closed = true
		close(in.queue)
	}
	return nil
}
