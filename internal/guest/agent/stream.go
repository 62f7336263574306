// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeBuffer is how much one read takes, the size of a pipe.
const pipeBuffer = 64 << 10

// pump carries one output pipe of a child to a sink.
type pump struct {
	file *os.File
	conn syscall.RawConn

	mu     sync.Mutex // guards reading, so that drain and run keep the order of the bytes
	buffer []byte
	sink   func([]byte)
}

func newPump(file *os.File, sink func([]byte)) (*pump, error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &pump{file: file, conn: conn, buffer: make([]byte, pipeBuffer), sink: sink}, nil
}

// run reads until the end of the pipe or until close.
func (p *pump) run() {
	for {
		ended := false
		err := p.conn.Read(func(fd uintptr) bool {
			n := p.read(int(fd))
			ended = n == 0
			return n >= 0
		})
		if err != nil || ended {
			return
		}
	}
}

// drain takes what the pipe holds now. It is bounded: a writer that never stops cannot hold it.
func (p *pump) drain() {
	_ = p.conn.Control(func(fd uintptr) { // an error means that it is closed: nothing to drain
		for range 2 {
			if p.read(int(fd)) <= 0 {
				return
			}
		}
	})
}

// read takes one bufferful: the number of bytes, 0 at the end or on an error, -1 when there is nothing yet.
func (p *pump) read(fd int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := unix.Read(fd, p.buffer)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return -1
	case err != nil || n <= 0:
		return 0
	}
	p.sink(p.buffer[:n])
	return n
}

func (p *pump) close() { _ = p.file.Close() }

// tail reads a child's channel. After finish it returns what is there and then io.EOF, even while a forked relative of
// the dead child still holds the other end.
type tail struct {
	file *os.File
	conn syscall.RawConn
	dead bool
	// left is what was in the channel when the child's end was known, and not read yet: what relatives write later must
	// not hold that end up.
	left int
}

func newTail(file *os.File) (*tail, error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &tail{file: file, conn: conn}, nil
}

// finish ends the waiting. It may be called while Read waits.
func (t *tail) finish() { _ = t.file.SetReadDeadline(longAgo()) }

func (t *tail) Read(p []byte) (int, error) {
	if !t.dead {
		n, err := t.file.Read(p)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		t.dead = true
		_ = t.conn.Control(func(fd uintptr) { t.left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // nothing is left of a closed one
	}
	p = p[:min(len(p), max(0, t.left))]
	if len(p) == 0 {
		return 0, io.EOF
	}
	n, err := 0, error(nil)
	if controlErr := t.conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), p) }); controlErr != nil {
		return 0, io.EOF
	}
	if err != nil || n <= 0 {
		return 0, io.EOF
	}
	t.left -= n
	return n, nil
}
