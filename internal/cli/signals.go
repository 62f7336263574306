// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"time"
)

// signalEcho is for how long the same wish may arrive again: wrappers such as timeout send it twice.
const signalEcho = time.Second

// signals follows the signals that end a command.
type signals struct {
	incoming chan os.Signal
	done     chan struct{}
	// hurry closes at the second signal, if anybody asked for it.
	hurry   chan struct{}
	patient atomic.Bool
	// spared has what an interrupt from the keyboard ends in place of the command, where somebody asked for that.
	spared atomic.Pointer[chan struct{}]
}

// watch cancels on the first signal, and leaves the second one to the system, or the third one where somebody asked for
// the second.
func watch(list []os.Signal, cancel context.CancelCauseFunc) *signals {
	s := &signals{incoming: make(chan os.Signal, 1), done: make(chan struct{}), hurry: make(chan struct{})}
	if len(list) == 0 {
		return s
	}
	signal.Notify(s.incoming, list...)
	go func() {
		defer signal.Stop(s.incoming)
		if !s.next() {
			return
		}
		cancel(errInterrupted)
		if s.echo() && s.patient.Load() && s.next() {
			close(s.hurry)
			s.echo()
		}
	}()
	return s
}

// second returns a channel that closes at the second signal.
func (s *signals) second() <-chan struct{} {
	s.patient.Store(true)
	return s.hurry
}

// interrupts returns a channel that tells of interrupts from the keyboard, which from now on do not end the command.
func (s *signals) interrupts() <-chan struct{} {
	told := make(chan struct{}, 1)
	s.spared.Store(&told)
	return told
}

// next waits for a signal; false says that the command is over.
func (s *signals) next() bool {
	for {
		select {
		case signal := <-s.incoming:
			told := s.spared.Load()
			if told == nil || signal != os.Interrupt {
				return true
			}
			select {
			case *told <- struct{}{}:
			default: // it was told of one already
			}
		case <-s.done:
			return false
		}
	}
}

// echo takes what comes of the same wish again; false says that the command is over.
func (s *signals) echo() bool {
	over := time.NewTimer(signalEcho)
	defer over.Stop()
	for {
		select {
		case <-s.incoming:
		case <-over.C:
			return true
		case <-s.done:
			return false
		}
	}
}

func (s *signals) stop() {
	signal.Stop(s.incoming)
	close(s.done)
}
