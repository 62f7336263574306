// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"sync"

	"glovebox/internal/guest/wire"
)

const (
	// maxControl bounds the interpreter's own messages to the guest.
	maxControl = 64 << 10
	// maxOpenHere and maxPendingHere bound the unfinished messages of all sessions together. The daemon's own bounds are
	// higher: who meets those breaks the protocol.
	maxOpenHere    = wire.MaxOpen / 2
	maxPendingHere = wire.MaxPending * 3 / 4
)

// passage lets the messages of sessions through frame by frame: the guest's memory is small, and whoever sends messages
// of the largest size, or begins them and never ends them, must not fill it.
type passage struct {
	mu      sync.Mutex
	open    int
	pending int
}

// enter takes room for a piece of an unfinished message, or refuses.
func (p *passage) enter(begins bool, size int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending+size > maxPendingHere || begins && p.open >= maxOpenHere {
		return false
	}
	p.pending += size
	if begins {
		p.open++
	}
	return true
}

// leave gives the room of a message back.
func (p *passage) leave(size int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending -= size
	p.open--
}

// begun is the running cell's message of one kind that is not at its end.
type begun struct {
	size int
	cut  bool // it was ended before its end: what follows of it is dropped
}

// pass hands a frame of the running cell on. It runs on the goroutine that reads the session's channel.
func (s *session) pass(f wire.Frame) error {
	if cell := s.running(); cell == 0 || cell != f.ID || s.isForking() {
		return nil
	}
	b, isBegun := s.begun[f.Kind]
	if b.size+len(f.Payload) > wire.MaxMessage {
		return fmt.Errorf("%w: %s has more than %d bytes", wire.ErrProtocol, f.Kind, wire.MaxMessage)
	}
	if !f.More {
		s.forgetBegun(f.Kind)
		if !b.cut {
			s.agent.sendFrame(f)
		}
		return nil
	}
	b.size += len(f.Payload)
	if !b.cut && !s.agent.passage.enter(!isBegun, len(f.Payload)) {
		if isBegun {
			s.agent.passage.leave(b.size - len(f.Payload))
		}
		b.cut = true
		s.agent.sendFrame(wire.Frame{Kind: f.Kind, ID: f.ID})
	}
	if s.begun == nil {
		s.begun = make(map[wire.Kind]begun)
	}
	s.begun[f.Kind] = b
	if !b.cut {
		s.agent.sendFrame(f)
	}
	return nil
}

func (s *session) forgetBegun(kind wire.Kind) {
	if b, isBegun := s.begun[kind]; isBegun {
		delete(s.begun, kind)
		if !b.cut {
			s.agent.passage.leave(b.size)
		}
	}
}

// cutBegun ends what a cell began to say and can no longer finish, so that the daemon does not wait for the rest. The
// daemon finds that it does not parse and says so.
func (s *session) cutBegun(cell uint32) {
	for kind, b := range s.begun {
		s.forgetBegun(kind)
		if !b.cut && cell != 0 {
			s.agent.sendFrame(wire.Frame{Kind: kind, ID: cell})
		}
	}
}
