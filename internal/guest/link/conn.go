// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"glovebox/internal/guest/wire"
	"glovebox/internal/sandbox"
)

// The limits of a connection.
const (
	// callQueue is how many messages may wait for the goroutine of their call before reading stops.
	callQueue = 64
	// filePiece is how much of a file is asked for, or sent, at once: it fits between the queues of both sides, so that
	// whoever is slow to take a file, or to bring one, holds up nothing else of the sandbox.
	filePiece = 1 << 20
	// maxBackground bounds the output kept between two cells of a session, in bytes; more is dropped.
	maxBackground = 256 << 10
	// replyTimeout is how long a guest may take for what it should do at once.
	replyTimeout = 30 * time.Second
)

// Host is what only a backend knows about a sandbox, and what only it can do.
type Host interface {
	// Usage reads the kernel's counters.
	Usage() (sandbox.Usage, error)
	// Full names the quotas of writable file systems that are used up now.
	Full() []sandbox.Hit
	// Kill ends every process of the sandbox at once, the guest too.
	Kill()
}

// Conn is the connection to one guest.
type Conn struct {
	channel io.ReadWriteCloser
	out     *wire.Writer
	host    Host
	limits  sandbox.Limits // set by Lease

	putMu sync.Mutex // held while a piece of a file is sent

	closed chan struct{} // closes when nothing more will arrive

	mu       sync.Mutex
	err      error
	next     uint32
	calls    map[uint32]*call
	sessions map[uint32]*Session
}

// call is a request in flight.
type call struct {
	messages chan wire.Message
	over     chan struct{} // closes when nobody reads messages any more
	large    chan struct{} // holds one token while a large message waits or is worked on: one at a time
}

// isLarge tells the messages of more than one frame, of which only one at a time is held for a call.
func isLarge(m wire.Message) bool { return len(m.Payload) > wire.MaxPayload }

// give waits until the call takes the message, or is over.
func (c *call) give(m wire.Message) {
	if isLarge(m) {
		select {
		case c.large <- struct{}{}:
		case <-c.over:
			return
		}
	}
	select {
	case c.messages <- m:
	case <-c.over:
	}
}

// worked says that a message from messages is dealt with.
func (c *call) worked(m wire.Message) {
	if isLarge(m) {
		<-c.large
	}
}

// New returns a connection on the channel and starts reading it.
func New(channel io.ReadWriteCloser, host Host) *Conn {
	c := &Conn{
		channel: channel, out: wire.NewWriter(channel), host: host, closed: make(chan struct{}),
		calls: make(map[uint32]*call), sessions: make(map[uint32]*Session),
	}
	go c.read()
	return c
}

// Close ends the connection, and by that the guest.
func (c *Conn) Close() error {
	err := c.channel.Close()
	<-c.closed
	return err
}

// Closed closes when the connection is over.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// read hands messages out until the channel ends.
func (c *Conn) read() {
	err := c.readAll()
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	close(c.closed)
}

func (c *Conn) readAll() error {
	reader := wire.NewReader(bufio.NewReaderSize(c.channel, 64<<10))
	for {
		m, err := reader.Next()
		if err != nil {
			if errors.Is(err, wire.ErrProtocol) {
				c.host.Kill()
			}
			return err
		}
		switch m.Kind {
		case wire.KindHello: // the guest's greeting: its box stands
		case wire.KindBackgroundStdout, wire.KindBackgroundStderr:
			c.background(m)
		default:
			c.deliver(m)
		}
	}
}

// deliver gives a message to its call. One for a call that is over is dropped: the guest may not have known.
func (c *Conn) deliver(m wire.Message) {
	c.mu.Lock()
	target := c.calls[m.ID]
	c.mu.Unlock()
	if target != nil {
		target.give(m)
	}
}

func (c *Conn) background(m wire.Message) {
	c.mu.Lock()
	s := c.sessions[m.ID]
	c.mu.Unlock()
	if s == nil || len(m.Payload) == 0 {
		return
	}
	if target := s.keepBackground(m); target != nil {
		target.give(m)
	}
}

// begin registers a call and returns its id.
func (c *Conn) begin() (uint32, *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	started := &call{
		messages: make(chan wire.Message, callQueue), over: make(chan struct{}), large: make(chan struct{}, 1),
	}
	c.calls[c.next] = started
	return c.next, started
}

func (c *Conn) end(id uint32, ended *call) {
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
	close(ended.over)
}

// gone is the error for a connection that is over.
func (c *Conn) gone() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || errors.Is(c.err, io.EOF) {
		return sandbox.ErrGone
	}
	return fmt.Errorf("%w: %w", sandbox.ErrGone, c.err)
}

// ask sends a request and waits for its reply.
func (c *Conn) ask(ctx context.Context, kind wire.Kind, request any) (wire.Reply, error) {
	id, started := c.begin()
	defer c.end(id, started)
	ctx, cancel := replyContext(ctx)
	defer cancel()
	if err := c.write(ctx, func() error { return c.out.JSON(kind, id, request) }); err != nil {
		return wire.Reply{}, err
	}
	return c.awaitReply(ctx, started)
}

func replyContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, replyTimeout, errors.New("the guest did not answer in time"))
}

// write sends, as long as ctx: a guest that does not read must not hold up more than its own requests.
func (c *Conn) write(ctx context.Context, send func() error) error {
	sent := make(chan error, 1)
	go func() { sent <- send() }()
	select {
	case err := <-sent:
		if err != nil {
			return c.goneBecause(err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Conn) goneBecause(err error) error { return fmt.Errorf("%w: %w", sandbox.ErrGone, err) }

func (c *Conn) awaitReply(ctx context.Context, started *call) (wire.Reply, error) {
	ctx, cancel := replyContext(ctx)
	defer cancel()
	select {
	case m := <-started.messages:
		return replyOf(m)
	case <-ctx.Done():
		return wire.Reply{}, context.Cause(ctx)
	case <-c.closed:
		select {
		case m := <-started.messages:
			return replyOf(m)
		default:
			return wire.Reply{}, c.gone()
		}
	}
}

func replyOf(m wire.Message) (wire.Reply, error) {
	if m.Kind != wire.KindReply {
		return wire.Reply{}, fmt.Errorf("%w: %s in place of a reply", wire.ErrProtocol, m.Kind)
	}
	if len(m.Payload) > maxReply {
		return wire.Reply{}, fmt.Errorf("%w: a reply of %d bytes, at most %d are read", wire.ErrProtocol, len(m.Payload), maxReply)
	}
	var reply wire.Reply
	if err := m.Decode(&reply); err != nil {
		return wire.Reply{}, err
	}
	return reply, refusal(reply)
}

// maxReply bounds the bytes of a reply: the longest lists the files of a folder.
const maxReply = 8 << 20

// maxReason bounds what is taken over of a guest's error text.
const maxReason = 4096

func refusal(reply wire.Reply) error {
	reason := reply.Error
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	switch reply.Code {
	case "":
		return nil
	case wire.CodeBusy:
		return sandbox.ErrBusy
	case wire.CodeGone:
		return fmt.Errorf("%w: %q", sandbox.ErrGone, reason)
	case wire.CodeNotFound:
		return fmt.Errorf("%w: %q", fs.ErrNotExist, reason)
	case wire.CodeFull:
		return fmt.Errorf("%w: %q", sandbox.ErrFull, reason)
	case wire.CodeDenied:
		return fmt.Errorf("%w: %q", fs.ErrPermission, reason)
	case wire.CodeDeaf:
		return sandbox.ErrDeaf
	default:
		return &sandbox.RefusedError{Reason: reason}
	}
}

// Lease tells the guest its limits; nothing can be started before.
func (c *Conn) Lease(ctx context.Context, limits sandbox.Limits) error {
	c.limits = limits
	_, err := c.ask(ctx, wire.KindHello, wire.Hello{Limits: &wire.ProcessLimits{
		OpenFiles: limits.OpenFiles,
		Processes: limits.Processes,
		FileSize:  limits.Disk,
		CPUTime:   int64((limits.CPUTime + time.Second - 1) / time.Second),
	}})
	return err
}

// Ping asks the guest for a sign of life.
func (c *Conn) Ping(ctx context.Context) error {
	_, err := c.ask(ctx, wire.KindPing, struct{}{})
	return err
}
