// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/confine"
	"glovebox/internal/guest/layer"
	"glovebox/internal/guest/packet"
	"glovebox/internal/guest/reaper"
	"glovebox/internal/guest/wire"
)

// MaxChildren bounds the sessions and processes of one sandbox that are alive at once.
const MaxChildren = 64

// adoptedFiles are channel, standard output and standard error.
const adoptedFiles = 3

var (
	errGone    = errors.New("it has ended")
	errBusy    = errors.New("it runs another cell")
	errTooMany = fmt.Errorf("more than %d sessions and processes in one sandbox", MaxChildren)
)

// Agent serves one sandbox.
type Agent struct {
	out     *wire.Writer
	in      *wire.Reader
	reaper  *reaper.Reaper
	cgroups []int
	without layer.Set

	// template is set by the daemon's Hello, before anything is started, and not changed afterwards.
	template confine.Spec
	leased   bool
	// starting holds a token for each program that is being confined.
	starting chan struct{}

	mu       sync.Mutex
	children map[uint32]*session
	early    map[uint32]unix.WaitStatus // of adopted interpreters that are not here yet
	orphans  map[int]unix.WaitStatus    // by pid, see orphan

	files   fileServer
	passage passage
}

// New returns an agent on the channel. cgroups are the descriptors of the cgroup.procs files that everything it starts
// joins, without the layers that it does without.
func New(channel io.ReadWriter, cgroups []int, without layer.Set) *Agent {
	a := &Agent{
		out: wire.NewWriter(channel), in: wire.NewReader(bufio.NewReader(channel)), orphans: make(map[int]unix.WaitStatus),
		starting: make(chan struct{}, maxStarting), cgroups: cgroups, without: without, children: make(map[uint32]*session), early: make(map[uint32]unix.WaitStatus),
	}
	a.files.agent = a
	a.reaper = reaper.New(a.orphan)
	return a
}

// ServeLane takes over forked interpreters until the lane ends, which it does with the channel.
func (a *Agent) ServeLane(lane int) {
	for {
		var request wire.Adopt
		files, more, err := packet.Receive(lane, &request)
		if err != nil || !more {
			return
		}
		if len(files) != adoptedFiles {
			a.reply(request.ID, fmt.Errorf("a forked interpreter came with %d descriptors in place of %d", len(files), adoptedFiles))
			continue
		}
		go func() {
			_, ready, err := a.adopt(request.ID, files)
			if err != nil {
				a.reply(request.ID, err)
				return
			}
			a.send(wire.KindReply, request.ID, wire.Reply{PID: ready.PID, Ready: &ready})
		}()
	}
}

// Serve says hello and carries out requests until the channel ends, in whichever way: a daemon that leaves answers unread
// resets it.
func (a *Agent) Serve() error {
	if err := a.out.JSON(wire.KindHello, 0, wire.Hello{}); errors.Is(err, unix.EPIPE) {
		return nil // the daemon went away meanwhile
	} else if err != nil {
		return err
	}
	for {
		message, err := a.in.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.handle(message); err != nil {
			return err
		}
	}
}

// handle never waits for a child; an error ends the sandbox.
func (a *Agent) handle(m wire.Message) error {
	if !a.leased && m.Kind != wire.KindHello && m.Kind != wire.KindPing && m.Kind != wire.KindExited {
		return fmt.Errorf("%w: %s before hello", wire.ErrProtocol, m.Kind)
	}
	switch m.Kind {
	case wire.KindHello:
		return a.lease(m)
	case wire.KindPing:
		a.reply(m.ID, nil)
		return nil
	case wire.KindOpen:
		return decoded(m, func(request wire.Open) { go a.handleOpen(m.ID, request) })
	case wire.KindStart:
		return decoded(m, func(request wire.Start) { go a.handleStart(m.ID, request) })
	case wire.KindExec:
		return decoded(m, func(request wire.Exec) { a.handleExec(m.ID, request) })
	case wire.KindInterrupt:
		return decoded(m, func(t wire.Target) { a.reply(m.ID, a.signal(t.ID, unix.SIGINT)) })
	case wire.KindClose:
		return decoded(m, func(t wire.Target) { a.reply(m.ID, a.signal(t.ID, unix.SIGKILL)) })
	case wire.KindSignal:
		return decoded(m, func(s wire.Signal) { a.reply(m.ID, a.signal(s.ID, unix.Signal(s.Signal))) })
	case wire.KindForkSession:
		return decoded(m, func(t wire.Target) {
			go func() {
				err := a.room()
				if err == nil {
					err = a.forkSession(m.ID, t.ID)
				}
				if err != nil {
					a.reply(m.ID, err)
				}
			}()
		})
	case wire.KindExited:
		return decoded(m, a.exited)
	case wire.KindInput:
		return decoded(m, func(in wire.Input) { go func() { a.reply(m.ID, a.stdin(in)) }() })
	case wire.KindStdinClose:
		return decoded(m, func(t wire.Target) { go func() { a.reply(m.ID, a.closeStdin(t.ID)) }() })
	case wire.KindResize:
		return decoded(m, func(r wire.Resize) { a.reply(m.ID, a.resize(r)) })
	case wire.KindFile, wire.KindFileData, wire.KindFileEnd:
		a.files.forward(m)
		return nil
	default:
		return fmt.Errorf("%w: unexpected %s from the daemon", wire.ErrProtocol, m.Kind)
	}
}

func decoded[T any](m wire.Message, do func(T)) error {
	var request T
	if err := m.Decode(&request); err != nil {
		return err
	}
	do(request)
	return nil
}

func (a *Agent) lease(m wire.Message) error {
	var hello wire.Hello
	if err := m.Decode(&hello); err != nil {
		return err
	}
	if a.leased || hello.Limits == nil {
		return fmt.Errorf("%w: a sandbox is leased once, with limits", wire.ErrProtocol)
	}
	l := hello.Limits
	a.template = confine.Template(confine.Limits{
		OpenFiles: l.OpenFiles, Processes: l.Processes, FileSize: l.FileSize, CPUTime: l.CPUTime,
	}, len(a.cgroups), a.without)
	a.leased = true
	a.reply(m.ID, nil)
	return nil
}

func (a *Agent) handleOpen(id uint32, request wire.Open) {
	if request.Adopted != 0 {
		a.handleOpenAdopted(id, request)
		return
	}
	if err := a.room(); err != nil {
		a.reply(id, err)
		return
	}
	s, ready, err := a.open(id, request)
	if err != nil {
		a.reply(id, err)
		return
	}
	a.remember(s)
	if len(request.Own) > 0 {
		s.prepare(wire.Prepare{Env: request.Own, Dir: request.Dir})
	}
	a.send(wire.KindReply, id, wire.Reply{PID: s.child.pid, Ready: &ready})
}

// handleOpenAdopted gives a waiting interpreter what a started one gets by its environment and confinement.
func (a *Agent) handleOpenAdopted(id uint32, request wire.Open) {
	s := a.child(request.Adopted)
	if s == nil {
		a.reply(id, errGone)
		return
	}
	p := wire.Prepare{Env: request.Env, Dir: request.Dir}
	for _, limit := range a.template.Rlimits {
		p.Rlimits = append(p.Rlimits, [2]uint64{uint64(limit.Resource), limit.Value}) //nolint:gosec // small numbers
	}
	s.prepare(p)
	a.reply(id, nil)
}

func (a *Agent) handleStart(id uint32, request wire.Start) {
	if err := a.room(); err != nil {
		a.reply(id, err)
		return
	}
	s, err := a.startProcess(id, request)
	if err != nil {
		a.reply(id, err)
		return
	}
	a.remember(s)
	a.send(wire.KindReply, id, wire.Reply{PID: s.child.pid})
}

func (a *Agent) handleExec(id uint32, request wire.Exec) {
	s := a.child(request.Session)
	if s == nil {
		a.reply(id, errGone)
		return
	}
	if err := s.exec(id, request.Cell); err != nil {
		a.reply(id, err)
	}
}

// exited delivers the status of an adopted interpreter. The lane is another socket: the interpreter itself may come
// later than the news of its end.
func (a *Agent) exited(e wire.Exited) {
	a.mu.Lock()
	s := a.children[e.ID]
	if s == nil && len(a.early) < MaxChildren {
		a.early[e.ID] = unix.WaitStatus(e.Status)
	}
	a.mu.Unlock()
	if s != nil {
		s.exited(unix.WaitStatus(e.Status))
	}
}

// stdin hands input to a process and waits until its pipe has taken it.
func (a *Agent) stdin(in wire.Input) error {
	s := a.child(in.ID)
	switch {
	case s == nil:
		return errGone
	case len(in.Data) > wire.MaxInput:
		return fmt.Errorf("%d bytes of input at once: at most %d are taken", len(in.Data), wire.MaxInput)
	}
	return s.input.put(in.Data)
}

func (a *Agent) resize(r wire.Resize) error {
	s := a.child(r.ID)
	switch {
	case s == nil:
		return errGone
	case s.terminal == nil:
		return errNoTerminal
	}
	return setSize(s.terminal, r.Size)
}

func (a *Agent) closeStdin(id uint32) error {
	s := a.child(id)
	if s == nil {
		return errGone
	}
	return s.input.end()
}

func (a *Agent) signal(id uint32, signal unix.Signal) error {
	s := a.child(id)
	if s == nil {
		return errGone
	}
	s.signal(signal)
	return nil
}

func (a *Agent) room() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.children) >= MaxChildren {
		return errTooMany
	}
	return nil
}

func (a *Agent) child(id uint32) *session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.children[id]
}

func (a *Agent) remember(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		a.children[s.id] = s
	}
	if status, known := a.early[s.id]; known {
		delete(a.early, s.id)
		s.exited(status)
	}
}

func (a *Agent) forget(id uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.children, id)
}

// reply answers a request; nil is success.
func (a *Agent) reply(id uint32, err error) {
	var reply wire.Reply
	switch {
	case err == nil:
	case errors.Is(err, errGone):
		reply = wire.Reply{Code: wire.CodeGone, Error: err.Error()}
	case errors.Is(err, errBusy):
		reply = wire.Reply{Code: wire.CodeBusy, Error: err.Error()}
	case errors.Is(err, errDeaf):
		reply = wire.Reply{Code: wire.CodeDeaf, Error: err.Error()}
	case errors.Is(err, os.ErrNotExist):
		reply = wire.Reply{Code: wire.CodeNotFound, Error: err.Error()}
	default:
		reply = wire.Reply{Code: wire.CodeFailed, Error: err.Error()}
	}
	a.send(wire.KindReply, id, reply)
}

// send and sendBytes write to the daemon. A channel that cannot be written ends with its reader too, and then us.
func (a *Agent) send(kind wire.Kind, id uint32, v any) { _ = a.out.JSON(kind, id, v) }

func (a *Agent) sendFrame(f wire.Frame) { _ = a.out.Frame(f) }

func (a *Agent) sendBytes(kind wire.Kind, id uint32, p []byte) { _ = a.out.Bytes(kind, id, p) }
