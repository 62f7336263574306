// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/wire"
	"glovebox/internal/sandbox"
)

// Process is a plain program in the sandbox.
type Process struct {
	conn *Conn
	id   uint32
	pid  int
	turn chan struct{} // holds a token while nobody writes to standard input
	over chan struct{} // closes when result and err are set

	result sandbox.Result
	err    error
}

// Start starts a program. It lives until it ends, until its wall limit, or as long as ctx.
func (c *Conn) Start(ctx context.Context, command sandbox.Command) (*Process, error) {
	switch {
	case command.Wall <= 0:
		return nil, errors.New("a process needs a wall limit")
	case len(command.Args) == 0:
		return nil, errors.New("a process needs a program")
	}
	id, started := c.begin()
	p := &Process{conn: c, id: id, turn: make(chan struct{}, 1), over: make(chan struct{})}
	p.turn <- struct{}{}
	begun := make(chan int, 1)
	emit := command.Emit
	if emit == nil {
		emit = func(sandbox.Event) {}
	}
	run := &run{
		conn: c, call: started, emit: emit, wall: command.Wall, cpu: c.limits.CPUTime,
		interrupt: func(ctx context.Context) error { return p.Signal(ctx, int(unix.SIGINT)) },
		kill:      func(ctx context.Context) error { return p.Signal(ctx, int(unix.SIGKILL)) },
		started:   func(reply wire.Reply) { begun <- reply.PID },
	}
	request := wire.Start{Args: command.Args, Dir: command.Dir, Env: command.Env, Stdin: command.Stdin || command.Terminal != nil}
	if size := command.Terminal; size != nil {
		request.Terminal = &wire.Size{Rows: size.Rows, Columns: size.Columns}
	}
	go func() {
		defer close(p.over)
		defer c.end(id, started)
		p.result, p.err = run.do(ctx, func() error { return c.out.JSON(wire.KindStart, id, request) })
	}()
	select {
	case p.pid = <-begun:
		return p, nil
	case <-p.over:
		select {
		case p.pid = <-begun: // it was quick
			return p, nil
		default:
		}
		if p.err == nil {
			p.err = errors.New(p.result.Detail)
		}
		return nil, fmt.Errorf("start %s: %w", command.Args[0], p.err)
	}
}

// PID is the process id inside the sandbox.
func (p *Process) PID() int { return p.pid }

// Write adds to the process's standard input, and returns when the process's pipe has taken it.
func (p *Process) Write(ctx context.Context, b []byte) error {
	select {
	case <-p.turn:
		defer func() { p.turn <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for len(b) > 0 {
		n := min(len(b), wire.MaxInput)
		if _, err := p.conn.ask(ctx, wire.KindInput, wire.Input{ID: p.id, Data: b[:n]}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// CloseStdin ends the process's standard input.
func (p *Process) CloseStdin(ctx context.Context) error {
	_, err := p.conn.ask(ctx, wire.KindStdinClose, wire.Target{ID: p.id})
	return err
}

// Signal sends a signal to the process and its group.
func (p *Process) Signal(ctx context.Context, signal int) error {
	_, err := p.conn.ask(ctx, wire.KindSignal, wire.Signal{ID: p.id, Signal: signal})
	return err
}

// Resize changes the size of the process's terminal.
func (p *Process) Resize(ctx context.Context, columns, rows uint16) error {
	_, err := p.conn.ask(ctx, wire.KindResize, wire.Resize{ID: p.id, Size: wire.Size{Rows: rows, Columns: columns}})
	return err
}

// Wait waits for the end.
func (p *Process) Wait(ctx context.Context) (sandbox.Result, error) {
	select {
	case <-p.over:
		return p.result, p.err
	case <-ctx.Done():
		return sandbox.Result{}, context.Cause(ctx)
	}
}
