// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/fileserver"
	"glovebox/internal/guest/layout"
	"glovebox/internal/guest/wire"
)

// fileQueue is how many frames may wait for the file server before it counts as stuck.
const fileQueue = 64

// fileServer is a confined process that does the file work as the sandbox's own user, in the user's cgroup: a link it
// follows leads only where user code may go, and what it writes is charged to the run. User code can disturb it, and
// then only its own requests fail.
type fileServer struct {
	agent *Agent

	mu      sync.Mutex
	queue   chan wire.Message
	pending map[uint32]bool
	kill    func()
}

// forward hands a frame to the server, starting one if there is none.
func (f *fileServer) forward(m wire.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.queue == nil {
		if m.Kind != wire.KindFile {
			return // the rest of a request that was answered already
		}
		if err := f.startLocked(); err != nil {
			f.agent.reply(m.ID, err)
			return
		}
	}
	if m.Kind == wire.KindFile {
		f.pending[m.ID] = true
	} else if !f.pending[m.ID] {
		return
	}
	select {
	case f.queue <- m:
	default:
		f.kill() // it does not read: its end answers all that wait for it
	}
}

func (f *fileServer) startLocked() error {
	c, err := f.agent.start(program{
		args: []string{"/proc/self/exe", fileserver.Command}, dir: layout.Workspace, channel: true,
	})
	if err != nil {
		return err
	}
	queue := make(chan wire.Message, fileQueue)
	f.queue, f.pending = queue, make(map[uint32]bool)
	f.kill = func() { _ = unix.Kill(c.pid, unix.SIGKILL) }
	stop := make(chan struct{})
	go f.write(c.channel, queue, stop)
	go f.read(c.channel)
	go f.wait(c, stop)
	return nil
}

func (f *fileServer) write(channel *os.File, queue <-chan wire.Message, stop <-chan struct{}) {
	w := wire.NewWriter(channel)
	for {
		select {
		case m := <-queue:
			if w.Bytes(m.Kind, m.ID, m.Payload) != nil {
				return
			}
		case <-stop:
			return
		}
	}
}

func (f *fileServer) read(channel *os.File) {
	reader := wire.NewReader(bufio.NewReader(channel))
	for {
		m, err := reader.Next()
		if err != nil {
			f.mu.Lock()
			f.kill()
			f.mu.Unlock()
			return
		}
		if !f.mayAnswer(m) {
			continue
		}
		f.agent.sendBytes(m.Kind, m.ID, m.Payload)
	}
}

// mayAnswer keeps a disturbed server from speaking for anything but its own open requests.
func (f *fileServer) mayAnswer(m wire.Message) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.pending[m.ID] {
		return false
	}
	switch m.Kind {
	case wire.KindReply:
		delete(f.pending, m.ID)
		return true
	case wire.KindFileData, wire.KindFileEnd:
		return true
	default:
		return false
	}
}

func (f *fileServer) wait(c *child, stop chan<- struct{}) {
	<-c.status
	close(stop)
	f.mu.Lock()
	pending := f.pending
	f.queue, f.pending = nil, nil
	f.mu.Unlock()
	for _, file := range []*os.File{c.channel, c.stdout, c.stderr} {
		_ = file.Close()
	}
	for id := range pending {
		f.agent.reply(id, errors.New("the file server of the sandbox ended; try again"))
	}
}
