// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/sandbox"
)

// fakeProcess is a program of the fake: sh -c SCRIPT, echo WORDS, exit CODE, flood BYTES, cat, which repeats its input, deaf, which does
// not read it, and sleep, which ends by a signal alone. With a terminal it tells each new size.
type fakeProcess struct {
	box     *fakeSandbox
	command sandbox.Command
	signals chan int
	over    chan struct{}
	result  sandbox.Result

	mu     sync.Mutex // guards emitting, and closed
	closed bool
	ended  bool
	eof    chan struct{}
}

func (s *fakeSandbox) Start(ctx context.Context, command sandbox.Command) (sandbox.Process, error) {
	kind, err := s.backend.begin(ctx, MethodStart)
	if err != nil || kind == Truncate {
		return nil, errors.Join(err, ErrFault)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone || s.stopped():
		return nil, sandbox.ErrGone
	case !s.leased:
		return nil, sandbox.ErrLeased
	case len(command.Args) == 0 || command.Wall <= 0:
		return nil, errors.New("a process needs a program and a wall limit")
	}
	if command.Emit == nil {
		command.Emit = func(sandbox.Event) {}
	}
	p := &fakeProcess{box: s, command: command, signals: make(chan int, 8), over: make(chan struct{}), eof: make(chan struct{})}
	switch command.Args[0] {
	case "echo", "exit", "flood", "cat", "deaf", "sleep", "sh":
	default:
		return nil, &sandbox.RefusedError{Reason: "program " + command.Args[0] + " is not in the PATH of the sandbox"}
	}
	p.closed = !command.Stdin && command.Terminal == nil
	if p.closed {
		close(p.eof)
	}
	s.running.Add(1)
	go p.run(ctx)
	return p, nil
}

func (p *fakeProcess) run(ctx context.Context) {
	defer p.box.running.Done()
	defer close(p.over)
	words := strings.Join(p.command.Args[1:], " ")
	number, _ := strconv.Atoi(words)
	p.result.End = sandbox.EndOK
	var wait <-chan struct{}
	switch p.command.Args[0] {
	case "echo":
		p.emit([]byte(words + "\n"))
		return
	case "flood":
		p.emit([]byte(strings.Repeat("x", number)))
		return
	case "exit":
		p.result.ExitCode = number
		if number != 0 {
			p.result.End = sandbox.EndExit
		}
		return
	case "sh":
		p.shell(p.command.Args[len(p.command.Args)-1])
		return
	case "cat":
		wait = p.eof
	}
	wall := time.NewTimer(p.command.Wall)
	defer wall.Stop()
	end := func(end sandbox.End, signal int) {
		p.result = sandbox.Result{End: end, Signal: signal, ExitCode: 128 + signal}
	}
	select {
	case <-wait:
	case signal := <-p.signals:
		end(sandbox.EndSignal, signal)
	case <-wall.C:
		end(sandbox.EndWallTimeout, int(unix.SIGKILL))
	case <-ctx.Done():
		end(sandbox.EndCanceled, int(unix.SIGKILL))
	case <-p.box.stop:
		end(sandbox.EndCanceled, int(unix.SIGKILL))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

// shell knows echo, to either stream, and exit.
func (p *fakeProcess) shell(script string) {
	for line := range strings.SplitSeq(script, ";") {
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "exit":
			p.result.End = sandbox.EndExit
			p.result.ExitCode, _ = strconv.Atoi(words[1])
		case len(words) == 3 && words[2] == ">&2":
			p.command.Emit(sandbox.Event{Kind: sandbox.EventStderr, Text: []byte(words[1] + "\n")})
		case len(words) > 1:
			p.emit([]byte(strings.Join(words[1:], " ") + "\n"))
		}
	}
}

func (p *fakeProcess) emit(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.command.Emit(sandbox.Event{Kind: sandbox.EventStdout, Text: text})
	}
}

func (p *fakeProcess) PID() int { return 2 }

func (p *fakeProcess) isOver() error {
	select {
	case <-p.over:
		return sandbox.ErrGone
	default:
		return nil
	}
}

func (p *fakeProcess) Write(_ context.Context, b []byte) error {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	switch {
	case p.isOver() != nil:
		return sandbox.ErrGone
	case closed:
		return &sandbox.RefusedError{Reason: "the process has no open standard input"}
	case p.command.Args[0] == "deaf":
		return sandbox.ErrDeaf
	}
	p.emit(append([]byte{}, b...))
	return nil
}

func (p *fakeProcess) CloseStdin(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.eof)
	}
	return p.isOver()
}

func (p *fakeProcess) Signal(_ context.Context, signal int) error {
	select {
	case p.signals <- signal:
	default:
	}
	return p.isOver()
}

func (p *fakeProcess) Resize(_ context.Context, columns, rows uint16) error {
	if p.command.Terminal == nil {
		return &sandbox.RefusedError{Reason: "the process has no terminal"}
	}
	p.emit(fmt.Appendf(nil, "%d rows, %d columns\n", rows, columns))
	return p.isOver()
}

func (p *fakeProcess) Wait(ctx context.Context) (sandbox.Result, error) {
	select {
	case <-p.over:
		return p.result, nil
	case <-ctx.Done():
		return sandbox.Result{}, context.Cause(ctx)
	}
}
