// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/wire"
)

func longAgo() time.Time { return time.Unix(1, 0) }

// channelBuffer is how much of an interpreter's channel is read at once.
const channelBuffer = 64 << 10

// session is a live interpreter, and a plain process too: that one has no channel and one endless cell.
type session struct {
	id    uint32
	agent *Agent
	child *child
	out   *wire.Writer // to the interpreter
	pumps []*pump
	input *input // nil without standard input
	// terminal is the master of the process's terminal, nil without.
	terminal *os.File
	// adopted is where the status of an interpreter arrives that is no child of ours; nil for one that is.
	adopted chan<- unix.WaitStatus
	ready   chan wire.Ready

	mu     sync.Mutex
	cell   uint32 // the running cell, 0 when idle
	last   bool
	done   *wire.Done
	broken string
	gone   bool
	idle   int // what was printed since the last cell ended
	// begun belongs to the goroutine that reads the channel, and to finish after it.
	begun map[wire.Kind]begun
	// forking is set while the running cell is a fork of the interpreter, which nobody outside waits for by that name. It
	// takes the interpreter's word when that is over; false is also sent at its death.
	forking chan bool
	// channelEnded, if set, is called when the channel is over: the session is a sibling, and no child of ours.
	channelEnded func()
}

// open starts an interpreter and waits until it is ready.
func (a *Agent) open(id uint32, request wire.Open) (*session, wire.Ready, error) {
	deadline := time.Now().Add(startTimeout)
	c, err := a.start(program{args: request.Args, dir: request.Dir, env: request.Env, channel: true})
	if err != nil {
		return nil, wire.Ready{}, err
	}
	s := &session{id: id, agent: a, child: c, out: wire.NewWriter(c.channel), ready: make(chan wire.Ready, 1)}
	ended, err := s.serve()
	if err != nil {
		return nil, wire.Ready{}, err
	}
	select {
	case ready := <-s.ready:
		return s, ready, nil
	case <-ended:
		return nil, wire.Ready{}, fmt.Errorf("the interpreter %s ended before it was ready: %s", request.Args[0], s.brokenReason())
	case <-time.After(time.Until(deadline)): // others of its user may have stopped it
		s.breakOff("it was not ready in time")
		return nil, wire.Ready{}, fmt.Errorf("the interpreter %s was not ready in time", request.Args[0])
	}
}

// adopt takes over an interpreter that a zygote forked into this box. Its end is told by the daemon (exited).
func (a *Agent) adopt(id uint32, files []*os.File) (*session, wire.Ready, error) {
	status := make(chan unix.WaitStatus, 1)
	for i, file := range files {
		var err error
		if files[i], err = nonBlocking(file); err != nil {
			return nil, wire.Ready{}, err
		}
	}
	c := &child{status: status, channel: files[0], stdout: files[1], stderr: files[2]}
	s := &session{id: id, agent: a, child: c, out: wire.NewWriter(c.channel), ready: make(chan wire.Ready, 1), adopted: status}
	// Known before it is ready: it may end before that, and then the daemon says so.
	a.remember(s)
	ended, err := s.serve()
	if err != nil {
		return nil, wire.Ready{}, err
	}
	select {
	case ready := <-s.ready:
		s.mu.Lock()
		defer s.mu.Unlock()
		if ready.PID <= 1 {
			return nil, wire.Ready{}, fmt.Errorf("%w: a forked interpreter of pid %d", wire.ErrProtocol, ready.PID)
		}
		c.pid = ready.PID
		return s, ready, nil
	case <-ended:
		return nil, wire.Ready{}, fmt.Errorf("the forked interpreter ended before it was ready: %s", s.brokenReason())
	}
}

// nonBlocking returns the same open file in a form that can be waited on and given up.
func nonBlocking(file *os.File) (*os.File, error) {
	defer file.Close()
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), file.Name()), nil
}

// exited delivers the status of an adopted interpreter.
func (s *session) exited(status unix.WaitStatus) {
	select {
	case s.adopted <- status:
	default: // told already, or a child of our own
	}
}

// prepare makes an interpreter ready for its first cell. Nobody waits for it: the cell stands behind it.
func (s *session) prepare(p wire.Prepare) {
	if err := s.out.JSON(wire.KindPrepare, 0, p); err != nil {
		s.breakOff("it does not take its preparation: " + err.Error())
	}
}

// startProcess starts a plain process; its end is reported with the same id.
func (a *Agent) startProcess(id uint32, request wire.Start) (*session, error) {
	c, err := a.start(program{args: request.Args, dir: request.Dir, env: request.Env, stdin: request.Stdin, terminal: request.Terminal})
	if err != nil {
		return nil, err
	}
	s := &session{id: id, agent: a, child: c, cell: id, last: true}
	if c.stdin != nil {
		s.input = newInput(c.stdin, request.Terminal != nil)
	}
	if request.Terminal != nil {
		s.terminal = c.stdout
	}
	if _, err := s.serve(); err != nil {
		return nil, err
	}
	return s, nil
}

// serve starts the goroutines of a child. The channel it returns closes when all of them are over.
func (s *session) serve() (<-chan struct{}, error) {
	stdout, err := newPump(s.child.stdout, func(p []byte) { s.emitStream(wire.KindStdout, p) })
	if err != nil {
		return nil, err
	}
	s.pumps = []*pump{stdout}
	if s.terminal == nil { // a terminal has one stream
		stderr, err := newPump(s.child.stderr, func(p []byte) { s.emitStream(wire.KindStderr, p) })
		if err != nil {
			return nil, err
		}
		s.pumps = append(s.pumps, stderr)
	}
	var channel *tail
	if s.child.channel != nil {
		if channel, err = newTail(s.child.channel); err != nil {
			return nil, err
		}
	}
	var streams, frames sync.WaitGroup
	for _, p := range s.pumps {
		streams.Go(p.run)
	}
	if channel != nil {
		frames.Go(func() {
			s.readChannel(channel)
			if s.channelEnded != nil {
				s.channelEnded()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		status := <-s.child.status
		if channel != nil {
			channel.finish()
			frames.Wait()
		}
		s.finish(status)
		streams.Wait()
	}()
	return ended, nil
}

// finish reports the end of the process after its last output.
func (s *session) finish(status unix.WaitStatus) {
	for _, p := range s.pumps {
		p.drain()
	}
	s.mu.Lock()
	cell, done, broken := s.cell, s.done, s.broken
	forking := s.forking
	s.cell, s.forking, s.gone = 0, nil, true
	s.mu.Unlock()
	s.cutBegun(cell)
	s.agent.forget(s.id)
	if forking != nil {
		forking <- false
	} else if cell != 0 {
		s.agent.send(wire.KindEnd, cell, wire.End{Exited: true, Status: uint32(status), Done: done, Broken: broken})
	}
	for _, p := range s.pumps {
		p.close()
	}
	_ = s.child.channel.Close() // nil is an error and no harm
	s.input.abandon()
}

// exec hands a cell to the interpreter. The end is reported later, by readChannel or finish.
func (s *session) exec(id uint32, cell wire.Cell) error {
	s.mu.Lock()
	switch {
	case s.gone:
		s.mu.Unlock()
		return errGone
	case s.cell != 0:
		s.mu.Unlock()
		return errBusy
	}
	s.cell, s.last, s.done, s.idle = id, cell.Last, nil, 0
	s.mu.Unlock()
	// An interpreter that does not read must not stop the agent.
	go func() {
		if err := s.out.JSON(wire.KindCell, id, cell); err != nil {
			s.breakOff("it does not take a cell: " + err.Error())
		}
	}()
	return nil
}

// readChannel carries the interpreter's frames on until the channel ends. What breaks the protocol ends the process.
func (s *session) readChannel(channel *tail) {
	reader := wire.NewReader(bufio.NewReaderSize(channel, channelBuffer))
	for {
		frame, err := reader.NextFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.breakOff(err.Error())
			}
			return
		}
		if err := s.take(frame); err != nil {
			s.breakOff(err.Error())
			return
		}
	}
}

func (s *session) take(f wire.Frame) error {
	message := wire.Message{Kind: f.Kind, ID: f.ID, Payload: f.Payload}
	switch f.Kind {
	case wire.KindReady, wire.KindDone:
		if f.More || len(f.Payload) > maxControl {
			return fmt.Errorf("%w: %s has more than %d bytes", wire.ErrProtocol, f.Kind, maxControl)
		}
		return s.takeControl(message)
	case wire.KindStdout, wire.KindStderr:
		if f.More {
			return fmt.Errorf("%w: %s may not span frames", wire.ErrProtocol, f.Kind)
		}
		s.emitFor(f.ID, f.Kind, f.Payload)
		return nil
	case wire.KindDisplay, wire.KindResult, wire.KindError, wire.KindNotice, wire.KindValue:
		return s.pass(f)
	default:
		return fmt.Errorf("%w: an interpreter may not send %s", wire.ErrProtocol, f.Kind)
	}
}

func (s *session) takeControl(message wire.Message) error {
	if message.Kind == wire.KindReady {
		var ready wire.Ready
		if err := message.Decode(&ready); err != nil {
			return err
		}
		select {
		case s.ready <- ready:
			return nil
		default:
			return fmt.Errorf("%w: ready twice", wire.ErrProtocol)
		}
	}
	var done wire.Done
	if err := message.Decode(&done); err != nil {
		return err
	}
	s.cellDone(message.ID, done)
	return nil
}

// cellDone ends a cell, unless the process is to leave with it: then its exit is the end.
func (s *session) cellDone(id uint32, done wire.Done) {
	s.mu.Lock()
	if id == 0 || id != s.cell || s.done != nil {
		s.mu.Unlock()
		return
	}
	s.done = &done
	last := s.last
	s.mu.Unlock()
	if last {
		return
	}
	for _, p := range s.pumps {
		p.drain()
	}
	s.cutBegun(id)
	s.mu.Lock()
	s.cell = 0
	forking := s.forking
	s.forking = nil
	s.mu.Unlock()
	if forking != nil {
		forking <- done.Status == wire.StatusOK
		return
	}
	s.agent.send(wire.KindEnd, id, wire.End{Done: &done})
}

func (s *session) isForking() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.forking != nil
}

func (s *session) running() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cell
}

// emitStream carries pipe output: the kernel does not say who wrote it, so it is the running cell's.
func (s *session) emitStream(kind wire.Kind, p []byte) { s.emitFor(s.running(), kind, p) }

func (s *session) emitFor(id uint32, kind wire.Kind, p []byte) {
	if cell := s.running(); cell != 0 && id == cell && !s.isForking() {
		s.agent.sendBytes(kind, cell, p)
		return
	}
	if !s.mayPrint(len(p)) {
		return
	}
	if kind == wire.KindStdout {
		s.agent.sendBytes(wire.KindBackgroundStdout, s.id, p)
	} else {
		s.agent.sendBytes(wire.KindBackgroundStderr, s.id, p)
	}
}

// maxIdle bounds what is sent of the output between two cells; the daemon keeps no more. messageCost is what a message
// counts beside its bytes.
const (
	maxIdle     = 256 << 10
	messageCost = 64
)

// mayPrint reports whether output that is not the running cell's is still passed on. Between cells no limit of time ends
// a flood of it.
func (s *session) mayPrint(size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cell != 0 {
		return true
	}
	s.idle += size + messageCost
	if s.idle > maxIdle {
		s.idle = maxIdle + 1
		return false
	}
	return true
}

// breakOff ends an interpreter that broke the protocol.
func (s *session) breakOff(reason string) {
	s.mu.Lock()
	if s.broken == "" {
		s.broken = reason
	}
	s.mu.Unlock()
	s.signal(unix.SIGKILL)
}

func (s *session) brokenReason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == "" {
		return "no reason known"
	}
	return s.broken
}

// signal reaches the process and its process group: what a program started without a group of its own.
func (s *session) signal(signal unix.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone && s.child.pid > 1 {
		_ = unix.Kill(-s.child.pid, signal) // gone already is fine
	}
}
