// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"glovebox/internal/guest/wire"
	"glovebox/internal/sandbox"
)

// messageCost is what a kept message counts beside its bytes.
const messageCost = 64

// Session is a live interpreter.
type Session struct {
	conn *Conn
	id   uint32

	mu        sync.Mutex
	running   *call
	waiting   []wire.Message // background output between cells
	waitBytes int
}

// Open starts an interpreter.
func (c *Conn) Open(ctx context.Context, args []string, dir string, env, own map[string]string) (*Session, error) {
	id, started := c.begin()
	defer c.end(id, started)
	s := &Session{conn: c, id: id}
	c.mu.Lock()
	c.sessions[id] = s
	c.mu.Unlock()
	err := c.write(ctx, func() error {
		return c.out.JSON(wire.KindOpen, id, wire.Open{Args: args, Dir: dir, Env: env, Own: own})
	})
	if err == nil {
		var reply wire.Reply
		if reply, err = c.awaitReply(ctx, started); err == nil && reply.Ready == nil {
			err = fmt.Errorf("%w: an interpreter without a greeting", wire.ErrProtocol)
		}
	}
	if err != nil {
		c.forget(id)
		return nil, fmt.Errorf("open a session: %w", err)
	}
	return s, nil
}

// Adopt waits for an interpreter that was forked into the box and handed to the guest with this id by give, which gets
// the id before anything is sent.
func (c *Conn) Adopt(ctx context.Context, give func(id uint32) error) (*Session, error) {
	id, started := c.begin()
	defer c.end(id, started)
	s := &Session{conn: c, id: id}
	c.mu.Lock()
	c.sessions[id] = s
	c.mu.Unlock()
	err := give(id)
	if err == nil {
		_, err = c.awaitReply(ctx, started)
	}
	if err != nil {
		c.forget(id)
		return nil, fmt.Errorf("adopt a session: %w", err)
	}
	return s, nil
}

// Fork makes a sibling with all variables of this session, which must be idle. Threads do not live on in it.
func (s *Session) Fork(ctx context.Context) (sandbox.Session, error) {
	return s.conn.Adopt(ctx, func(id uint32) error {
		return s.conn.write(ctx, func() error { return s.conn.out.JSON(wire.KindForkSession, id, wire.Target{ID: s.id}) })
	})
}

// Prepare gives an adopted session its lease: what a started one gets when it starts.
func (s *Session) Prepare(ctx context.Context, dir string, env map[string]string) error {
	_, err := s.conn.ask(ctx, wire.KindOpen, wire.Open{Adopted: s.id, Dir: dir, Env: env})
	return err
}

// Exited tells the guest that the adopted interpreter of this id has ended, and how.
func (c *Conn) Exited(id, status uint32) {
	// A channel that is gone needs no news.
	_ = c.out.JSON(wire.KindExited, 0, wire.Exited{ID: id, Status: status})
}

func (c *Conn) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sessions, id)
}

// keepBackground returns the running cell's call, or keeps the message for the next cell.
func (s *Session) keepBackground(m wire.Message) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	if size := len(m.Payload) + messageCost; s.waitBytes+size <= maxBackground {
		s.waiting = append(s.waiting, m)
		s.waitBytes += size
	}
	return nil
}

// Exec runs one cell.
func (s *Session) Exec(ctx context.Context, code sandbox.Code, emit sandbox.Emit) (sandbox.Result, error) {
	if code.Wall <= 0 {
		return sandbox.Result{}, errors.New("a cell needs a wall limit")
	}
	id, started := s.conn.begin()
	defer s.conn.end(id, started)
	waiting, err := s.occupy(started)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer s.release()
	for _, m := range waiting {
		emit(backgroundEvent(m))
	}
	run := &run{
		conn: s.conn, call: started, emit: emit, wall: code.Wall, cpu: s.conn.limits.CPUTime, last: code.Last,
		interrupt: func(ctx context.Context) error { return s.Interrupt(ctx) },
		kill:      func(ctx context.Context) error { return s.kill(ctx) },
	}
	return run.do(ctx, func() error { return s.conn.out.JSON(wire.KindExec, id, s.request(code)) })
}

func (s *Session) request(code sandbox.Code) wire.Exec {
	cell := wire.Cell{Code: code.Source, Name: code.Name, Last: code.Last, Return: code.Return}
	if len(code.Inputs) > 0 {
		cell.Inputs = make(map[string]json.RawMessage, len(code.Inputs))
		for name, value := range code.Inputs {
			cell.Inputs[name] = value
		}
	}
	return wire.Exec{Session: s.id, Cell: cell}
}

func (s *Session) occupy(started *call) ([]wire.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return nil, sandbox.ErrBusy
	}
	s.running = started
	waiting := s.waiting
	s.waiting, s.waitBytes = nil, 0
	return waiting, nil
}

func (s *Session) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = nil
}

// Interrupt raises KeyboardInterrupt, or what the language has for it.
func (s *Session) Interrupt(ctx context.Context) error {
	_, err := s.conn.ask(ctx, wire.KindInterrupt, wire.Target{ID: s.id})
	return err
}

// Close ends the interpreter. One that is gone already is closed.
func (s *Session) Close(ctx context.Context) error {
	defer s.conn.forget(s.id)
	if err := s.kill(ctx); err != nil && !errors.Is(err, sandbox.ErrGone) {
		return err
	}
	return nil
}

func (s *Session) kill(ctx context.Context) error {
	_, err := s.conn.ask(ctx, wire.KindClose, wire.Target{ID: s.id})
	return err
}
