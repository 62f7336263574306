// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/wire"
	"glovebox/internal/sandbox"
)

const (
	// interruptGrace is how long a cell of a living session may take to end after an interrupt.
	interruptGrace = 2 * time.Second
	// killGrace is how long the guest may take to report the end of what it killed.
	killGrace = 5 * time.Second
	// cpuPoll is how often the used processor time is read.
	cpuPoll = 100 * time.Millisecond
)

// What a run may say in messages that have to be parsed: more than anybody keeps. What is beyond is dropped unread, since
// reading it costs us more than it costs the program to say.
const (
	maxParsed   = 4 * wire.MaxMessage
	maxMessages = 20_000
	// maxFaults and maxFault bound the exceptions: a cell has one.
	maxFaults = 16
	maxFault  = 1 << 20
)

// run is one execution: a cell or a process.
type run struct {
	conn      *Conn
	call      *call
	emit      sandbox.Emit
	wall, cpu time.Duration
	// last: the sandbox ends with this run.
	last      bool
	interrupt func(context.Context) error
	kill      func(context.Context) error
	// started, if set, is told of the guest's reply.
	started func(wire.Reply)

	parsed, messages, faults int // what was taken of the limits above
	dropping                 bool

	facts  sandbox.Facts
	before sandbox.Usage
	detail string
}

// do sends the request and follows the execution to its end.
func (r *run) do(ctx context.Context, send func() error) (sandbox.Result, error) {
	var err error
	if r.before, err = r.conn.host.Usage(); err != nil {
		return sandbox.Result{}, fmt.Errorf("read the sandbox's counters: %w", err)
	}
	began := time.Now()
	// Beside follow, or a guest that does not read would keep the limits from being kept.
	sent := make(chan error, 1)
	go func() { sent <- send() }()
	refused, err := r.follow(ctx, sent)
	if err != nil {
		return sandbox.Result{}, err
	}
	if refused != nil {
		return sandbox.Result{}, refused
	}
	return r.result(time.Since(began))
}

// follow reads messages until the end. It returns a refusal by the guest, or our own failure.
func (r *run) follow(ctx context.Context, sent <-chan error) (refused, err error) {
	wall := time.NewTimer(r.wall)
	defer wall.Stop()
	cpu := time.NewTicker(cpuPoll)
	defer cpu.Stop()
	canceled := ctx.Done()
	stop := newStopper(r)
	defer stop.end()
	for {
		select {
		case m := <-r.call.messages:
			over, refused, err := r.take(m)
			r.call.worked(m)
			if over || refused != nil || err != nil {
				return refused, err
			}
		case err := <-sent:
			if sent = nil; err != nil && !r.isOver() {
				return nil, r.conn.goneBecause(err)
			}
		case <-wall.C:
			r.facts.WallTimeout = true
			stop.begin(ctx)
		case <-cpu.C:
			if !r.facts.CPUTimeout && r.usedCPU() >= r.cpu {
				r.facts.CPUTimeout = true
				stop.begin(ctx)
			}
		case <-canceled:
			canceled = nil
			r.facts.Canceled = true
			stop.begin(ctx)
		case <-stop.next():
			stop.escalate(ctx)
		case <-r.conn.closed:
			r.facts.Canceled = r.facts.Canceled || ctx.Err() != nil // who gives up may end the sandbox, too
			return r.rest()
		}
	}
}

func (r *run) usedCPU() time.Duration {
	usage, err := r.conn.host.Usage()
	if err != nil {
		return 0 // the wall limit still holds
	}
	return usage.CPU - r.before.CPU
}

// rest takes what had arrived when the connection ended.
func (r *run) rest() (refused, err error) {
	for {
		select {
		case m := <-r.call.messages:
			over, refused, err := r.take(m)
			r.call.worked(m)
			if over || refused != nil || err != nil {
				return refused, err
			}
		default:
			r.lost()
			return nil, nil
		}
	}
}

// isOver says that we ended the run ourselves.
func (r *run) isOver() bool { return r.facts.WallTimeout || r.facts.CPUTimeout || r.facts.Canceled }

// lost: the guest went away without telling an end. If we did not end it ourselves, somebody broke the box.
func (r *run) lost() {
	r.facts.Exited, r.facts.Signal = true, int(unix.SIGKILL)
	if r.isOver() {
		return
	}
	r.facts.Infra = true
	r.detail = "the sandbox ended without a report: " + r.conn.gone().Error()
}

// take handles one message; over is true after the last one.
func (r *run) take(m wire.Message) (over bool, refused, err error) {
	switch m.Kind {
	case wire.KindEnd:
		var end wire.End
		if err := m.Decode(&end); err != nil {
			return true, nil, err
		}
		r.takeEnd(end)
		return true, nil, nil
	case wire.KindReply:
		reply, err := replyOf(m)
		if err == nil && r.started != nil {
			r.started(reply)
		}
		return false, err, nil
	case wire.KindBackgroundStdout, wire.KindBackgroundStderr:
		r.emit(backgroundEvent(m))
		return false, nil, nil
	default:
		if !isEvent(m.Kind) {
			r.conn.host.Kill()
			return true, nil, fmt.Errorf("%w: %s in an execution", wire.ErrProtocol, m.Kind)
		}
		if r.affordable(m) {
			r.emit(eventOf(m))
		} else if !r.dropping {
			r.dropping = true
			r.emit(sandbox.Event{Kind: sandbox.EventNotice, Notice: &sandbox.Notice{
				Code: "output.dropped", Text: "the program showed more than anybody keeps: what is beyond was dropped unread",
			}})
		}
		return false, nil, nil
	}
}

// affordable counts what has to be parsed, and refuses what is beyond the limits.
func (r *run) affordable(m wire.Message) bool {
	switch m.Kind {
	case wire.KindStdout, wire.KindStderr:
		return true
	case wire.KindError:
		r.faults++
		return r.faults <= maxFaults && len(m.Payload) <= maxFault
	default:
		r.messages++
		if r.parsed+len(m.Payload) > maxParsed || r.messages > maxMessages {
			return false
		}
		r.parsed += len(m.Payload)
		return true
	}
}

func (r *run) takeEnd(end wire.End) {
	status := unix.WaitStatus(end.Status)
	if end.Exited {
		r.facts.Exited = true
		switch {
		case status.Signaled():
			r.facts.Signal = int(status.Signal())
		default:
			r.facts.ExitCode = status.ExitStatus()
		}
	}
	if end.Done != nil {
		r.facts.Claim, r.facts.ClaimedExit = claim(*end.Done)
	}
	if end.Broken != "" {
		r.facts.Policy = true
		r.detail = fmt.Sprintf("the interpreter was ended because it broke its protocol: %.200q", end.Broken)
	}
}

// claim turns the interpreter's words into an End; words it does not have claim nothing.
func claim(done wire.Done) (sandbox.End, int) {
	code := done.ExitCode & 0xff
	switch done.Status {
	case wire.StatusOK:
		return sandbox.EndOK, 0
	case wire.StatusError, wire.StatusInterrupted:
		return sandbox.EndError, 1
	case wire.StatusExit:
		return sandbox.EndExit, code
	default:
		return "", 0
	}
}

// result reads the counters and decides.
func (r *run) result(wall time.Duration) (sandbox.Result, error) {
	usage, err := r.conn.host.Usage()
	if err != nil {
		return sandbox.Result{}, fmt.Errorf("read the sandbox's counters: %w", err)
	}
	usage.Wall = wall
	usage.CPU -= r.before.CPU
	usage.OOMKills -= r.before.OOMKills
	usage.PIDRefusals -= r.before.PIDRefusals
	full := r.conn.host.Full()
	r.facts.OOMKills, r.facts.PIDRefusals, r.facts.Full = usage.OOMKills, usage.PIDRefusals, len(full) > 0
	result := sandbox.Result{Usage: usage, StateReset: r.facts.Exited, Detail: r.detail}
	result.End, result.ExitCode, result.Signal = r.facts.Outcome()
	result.Hits = append(r.hits(usage), full...)
	return result, nil
}

func (r *run) hits(usage sandbox.Usage) []sandbox.Hit {
	var hits []sandbox.Hit
	limits := r.conn.limits
	if r.facts.WallTimeout {
		hits = append(hits, sandbox.Hit{Limit: sandbox.LimitWall, Measured: int64(usage.Wall), Value: int64(r.wall)})
	}
	if r.facts.CPUTimeout {
		hits = append(hits, sandbox.Hit{Limit: sandbox.LimitCPUTime, Measured: int64(usage.CPU), Value: int64(r.cpu)})
	}
	if usage.OOMKills > 0 {
		hits = append(hits, sandbox.Hit{Limit: sandbox.LimitMemory, Measured: usage.MemoryPeak, Value: limits.Memory})
	}
	if usage.PIDRefusals > 0 {
		measured := max(usage.PIDsPeak, limits.Processes)
		hits = append(hits, sandbox.Hit{Limit: sandbox.LimitProcesses, Measured: measured, Value: limits.Processes})
	}
	return hits
}

// stopper ends a run in steps: interrupt, kill the process, kill the sandbox. A last run is killed at once.
type stopper struct {
	run   *run
	step  int
	timer *time.Timer
}

func newStopper(r *run) *stopper { return &stopper{run: r} }

func (s *stopper) next() <-chan time.Time {
	if s.timer == nil {
		return nil
	}
	return s.timer.C
}

func (s *stopper) end() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *stopper) begin(ctx context.Context) {
	if s.step == 0 {
		s.escalate(ctx)
	}
}

func (s *stopper) escalate(ctx context.Context) {
	s.end()
	s.step++
	ctx = context.WithoutCancel(ctx)
	switch {
	case s.run.last || s.step >= 3:
		s.run.conn.host.Kill()
		s.timer = nil
	case s.step == 1:
		s.ask(ctx, s.run.interrupt, interruptGrace)
	default:
		s.ask(ctx, s.run.kill, killGrace)
	}
}

// ask does not wait for the answer: the run's own messages may stand before it in the channel.
func (s *stopper) ask(ctx context.Context, do func(context.Context) error, grace time.Duration) {
	ctx, cancel := context.WithTimeoutCause(ctx, grace, errors.New("the guest did not answer in time"))
	go func() {
		defer cancel()
		_ = do(ctx) // the next step comes in any case
	}()
	s.timer = time.NewTimer(grace)
}
