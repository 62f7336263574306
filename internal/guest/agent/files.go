// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"errors"
	"fmt"
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
		f.beginLocked()
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

// beginLocked makes a queue and has a server started for it; whoever forwards must not wait for that.
func (f *fileServer) beginLocked() {
	queue, killed := make(chan wire.Message, fileQueue), make(chan struct{})
	f.queue, f.pending = queue, make(map[uint32]bool)
	f.kill = sync.OnceFunc(func() { close(killed) })
	go f.serve(queue, killed, f.kill)
}

func (f *fileServer) serve(queue <-chan wire.Message, killed <-chan struct{}, kill func()) {
	c, err := f.agent.start(program{
		args: []string{"/proc/self/exe", fileserver.Command}, dir: layout.Workspace, channel: true,
	})
	if err != nil {
		f.over(fmt.Errorf("start the file server of the sandbox: %w", err))
		return
	}
	stop := make(chan struct{})
	go func() {
		select {
		case <-killed:
			_ = unix.Kill(c.pid, unix.SIGKILL)
		case <-stop:
		}
	}()
	go f.write(c.channel, queue, stop)
	go f.read(c.channel, kill)
	<-c.status
	close(stop)
	f.over(errors.New("the file server of the sandbox ended; try again"))
	closeFiles([]*os.File{c.channel, c.stdout, c.stderr})
}

// over answers everything that waits for the server, which is gone.
func (f *fileServer) over(reason error) {
	f.mu.Lock()
	pending := f.pending
	f.queue, f.pending = nil, nil
	f.mu.Unlock()
	for id := range pending {
		f.agent.reply(id, reason)
	}
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

func (f *fileServer) read(channel *os.File, kill func()) {
	reader := wire.NewReader(bufio.NewReader(channel))
	for {
		m, err := reader.Next()
		if err != nil {
			kill()
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
