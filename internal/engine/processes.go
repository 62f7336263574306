// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"glovebox/internal/sandbox"
)

// The limits of the processes of a held sandbox.
const (
	// MaxProcesses is how many are kept, the ended ones too: the oldest of those makes room.
	MaxProcesses    = 16
	MaxArgs         = 256
	MaxArgsBytes    = 128 << 10
	MaxTerminalSide = 1000 // rows, and columns
	maxSignal       = 64
)

// ProcessSpec asks for a process.
type ProcessSpec struct {
	Args []string
	Dir  string
	Env  map[string]string
	// Wall is how long it may run; zero is as long as the sandbox may live.
	Wall time.Duration
	// Stdin keeps its input open. A terminal has one anyway.
	Stdin    bool
	Terminal *sandbox.TerminalSize
}

func (s *ProcessSpec) validate() error {
	var faults []error
	size := 0
	for i, arg := range s.Args {
		if size += len(arg) + 1; strings.ContainsRune(arg, 0) {
			faults = append(faults, fmt.Errorf("argument %d contains a NUL character", i))
		}
	}
	switch {
	case len(s.Args) == 0 || s.Args[0] == "":
		faults = append(faults, errors.New("there is no program: give command"))
	case len(s.Args) > MaxArgs || size > MaxArgsBytes:
		faults = append(faults, fmt.Errorf("%d arguments of %d bytes: at most %d of %d bytes together are allowed", len(s.Args), size, MaxArgs, MaxArgsBytes))
	}
	if s.Dir != "" {
		dir, err := cleanPath(s.Dir)
		faults, s.Dir = append(faults, err), dir
	}
	if s.Wall == 0 {
		s.Wall = MaxHardLease
	}
	if s.Wall < sandbox.MinWall || s.Wall > MaxHardLease {
		faults = append(faults, fmt.Errorf("wall is %v: %v to %v are allowed", s.Wall, sandbox.MinWall, MaxHardLease))
	}
	if s.Terminal != nil {
		faults = append(faults, validSize(*s.Terminal))
	}
	faults = append(faults, (&Request{Env: s.Env}).validateEnv())
	if err := errors.Join(faults...); err != nil {
		return problemOf(err)
	}
	return nil
}

func validSize(size sandbox.TerminalSize) error {
	if size.Rows < 1 || size.Columns < 1 || size.Rows > MaxTerminalSide || size.Columns > MaxTerminalSide {
		return &Problem{Code: CodeInvalid, Text: fmt.Sprintf("terminal of %d rows and %d columns: 1 to %d are allowed", size.Rows, size.Columns, MaxTerminalSide)}
	}
	return nil
}

// ProcessState is running or ended.
type ProcessState string

// The states.
const (
	ProcessRunning ProcessState = "running"
	ProcessEnded   ProcessState = "ended"
)

// Process describes one.
type Process struct {
	ID       string       `json:"id"`
	PID      int          `json:"pid"`
	Args     []string     `json:"args"`
	Dir      string       `json:"dir,omitempty"`
	Terminal bool         `json:"terminal"`
	State    ProcessState `json:"state"`
	Started  time.Time    `json:"started"`
	// Kept is the range of the output that can still be read: the last of it.
	Kept OutputRange `json:"kept"`
	// Result is there when it has ended.
	Result *sandbox.Result `json:"result,omitempty"`
	// Fault says why nothing is known of its end.
	Fault string `json:"fault,omitempty"`
}

// OutputRange is a range of offsets.
type OutputRange struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// heldProcess is one at work, or what is left of it.
type heldProcess struct {
	shown  Process
	live   sandbox.Process
	output *ring
	// over closes when result and err are set.
	over   chan struct{}
	result sandbox.Result
	err    error
}

// processes are those of one sandbox, guarded by its mu.
type processes struct {
	all      []*heldProcess
	starting int
	next     int
}

func (p *heldProcess) ended() bool {
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

func (p *heldProcess) describe() Process {
	shown := p.shown
	shown.State = ProcessRunning
	shown.Kept.From, shown.Kept.To = p.output.bounds()
	if p.ended() {
		shown.State = ProcessEnded
		if p.err != nil {
			shown.Fault = boundText(p.err.Error(), MaxDetail)
		} else {
			result := checkResult(p.result)
			shown.Result = &result
		}
	}
	return shown
}

// StartProcess starts a program in a tenant's sandbox. It lives until it ends, or as long as the sandbox.
func (e *Engine) StartProcess(ctx context.Context, tenant string, id sandbox.ID, spec ProcessSpec) (Process, error) {
	h, visit, leave, err := e.visit(ctx, tenant, id)
	if err != nil {
		return Process{}, err
	}
	defer leave()
	if err := errors.Join(spec.validate(), e.open()); err != nil {
		return Process{}, err
	}
	name, err := h.reserveProcess()
	if err != nil {
		return Process{}, err
	}
	p := &heldProcess{output: newRing(), over: make(chan struct{}), shown: Process{
		ID: name, Args: spec.Args, Dir: spec.Dir, Terminal: spec.Terminal != nil, Started: e.Now(),
	}}
	living, end := h.join(context.WithoutCancel(ctx))
	p.live, err = e.startIn(visit, living, h, spec, p.output)
	if err != nil {
		end()
		h.keepProcess(nil)
		return Process{}, h.explain(err)
	}
	p.shown.PID = p.live.PID()
	go func() {
		defer end()
		p.result, p.err = p.live.Wait(context.WithoutCancel(living))
		close(p.over)
		p.output.end()
	}()
	h.keepProcess(p)
	return p.describe(), nil
}

// startIn starts the program and gives up when the caller does, or when it takes too long: ending what it lives in ends it.
func (e *Engine) startIn(visit, living context.Context, h *held, spec ProcessSpec, output *ring) (sandbox.Process, error) {
	living, cancel := context.WithCancelCause(living)
	stop := context.AfterFunc(visit, func() { cancel(context.Cause(visit)) })
	slow := time.AfterFunc(e.Patience.Setup, func() { cancel(errWatchdog) })
	started, err := h.box.Start(living, sandbox.Command{
		Args: spec.Args, Dir: spec.Dir, Env: spec.Env, Wall: spec.Wall, Terminal: spec.Terminal, Stdin: spec.Stdin,
		Emit: func(event sandbox.Event) {
			if event.Kind == sandbox.EventStdout || event.Kind == sandbox.EventStderr {
				output.add(string(event.Kind), event.Text)
			}
		},
	})
	if !stop() || !slow.Stop() || err != nil {
		cancel(err)
	}
	return started, err
}

// reserveProcess takes a place for one more.
func (h *held) reserveProcess() (name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.processes
	if len(p.all)+p.starting >= MaxProcesses {
		oldest := slices.IndexFunc(p.all, (*heldProcess).ended)
		if oldest < 0 {
			return "", &Problem{Code: CodeOverloaded, Text: fmt.Sprintf("a sandbox may have %d processes: end one of them", MaxProcesses)}
		}
		p.all = slices.Delete(p.all, oldest, oldest+1)
	}
	p.starting++
	p.next++
	return "p" + strconv.Itoa(p.next), nil
}

// keepProcess fills a reserved place, or with nil gives it back.
func (h *held) keepProcess(started *heldProcess) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.processes.starting--
	if started != nil {
		h.processes.all = append(h.processes.all, started)
	}
}

// ProcessesIn lists the processes of a tenant's sandbox that were started through this door, the oldest first.
func (e *Engine) ProcessesIn(tenant string, id sandbox.ID) ([]Process, error) {
	h, err := e.lookUp(tenant, id)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	all := slices.Clone(h.processes.all)
	h.mu.Unlock()
	list := []Process{}
	for _, p := range all {
		list = append(list, p.describe())
	}
	return list, nil
}

// inProcess does something with a process.
func (e *Engine) inProcess(ctx context.Context, tenant string, id sandbox.ID, name string, do func(ctx context.Context, p *heldProcess) error) error {
	h, ctx, leave, err := e.visit(ctx, tenant, id)
	if err != nil {
		return err
	}
	defer leave()
	h.mu.Lock()
	at := slices.IndexFunc(h.processes.all, func(p *heldProcess) bool { return p.shown.ID == name })
	var p *heldProcess
	if at >= 0 {
		p = h.processes.all[at]
	}
	h.mu.Unlock()
	if p == nil {
		return notFound(fmt.Sprintf("sandbox %s has no process %q", id, clip(name, MaxName)))
	}
	return h.explain(do(ctx, p))
}

// inLiving is inProcess for what needs one that has not ended.
func (e *Engine) inLiving(ctx context.Context, tenant string, id sandbox.ID, name string, do func(ctx context.Context, p *heldProcess) error) error {
	return e.inProcess(ctx, tenant, id, name, func(ctx context.Context, p *heldProcess) error {
		gone := &Problem{Code: CodeEnded, Text: fmt.Sprintf("process %s has ended", name)}
		if p.ended() {
			return gone
		}
		err := do(ctx, p)
		if errors.Is(err, sandbox.ErrGone) && ctx.Err() == nil {
			return gone
		}
		return err
	})
}

// Process describes one. With a wait it waits for its end, that long at most.
func (e *Engine) Process(ctx context.Context, tenant string, id sandbox.ID, name string, wait time.Duration) (shown Process, err error) {
	err = e.inProcess(ctx, tenant, id, name, func(ctx context.Context, p *heldProcess) error {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-p.over:
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		shown = p.describe()
		return nil
	})
	return shown, err
}

// ProcessOutput returns what a process printed from an offset on. With wait it waits for something, or for the end.
func (e *Engine) ProcessOutput(ctx context.Context, tenant string, id sandbox.ID, name string, offset int64, wait bool) (out Printed, err error) {
	err = e.inProcess(ctx, tenant, id, name, func(ctx context.Context, p *heldProcess) error {
		if _, to := p.output.bounds(); offset < 0 || offset > to {
			return &Problem{Code: CodeInvalid, Text: fmt.Sprintf("offset is %d: process %s has printed %d bytes", offset, name, to)}
		}
		out, err = p.output.read(ctx, offset, wait)
		return err
	})
	return out, err
}

// inputPiece is how much of a process's input is read at once.
const inputPiece = 32 << 10

// WriteProcess sends a process its standard input, as fast as it reads, and says how much it took.
func (e *Engine) WriteProcess(ctx context.Context, tenant string, id sandbox.ID, name string, input io.Reader, last bool) (taken int64, err error) {
	err = e.inLiving(ctx, tenant, id, name, func(ctx context.Context, p *heldProcess) error {
		buffer := make([]byte, inputPiece)
		for {
			n, readErr := input.Read(buffer)
			if n > 0 {
				if err := p.live.Write(ctx, buffer[:n]); err != nil {
					return err
				}
				taken += int64(n)
			}
			if errors.Is(readErr, io.EOF) {
				break
			}
			if readErr != nil {
				return readErr
			}
		}
		if last {
			return p.live.CloseStdin(ctx)
		}
		return nil
	})
	return taken, err
}

// SignalProcess sends a signal to a process and its group.
func (e *Engine) SignalProcess(ctx context.Context, tenant string, id sandbox.ID, name string, signal int) error {
	if signal < 1 || signal > maxSignal {
		return &Problem{Code: CodeInvalid, Text: fmt.Sprintf("signal %d: 1 to %d are allowed", signal, maxSignal)}
	}
	return e.inLiving(ctx, tenant, id, name, func(ctx context.Context, p *heldProcess) error { return p.live.Signal(ctx, signal) })
}

// ResizeProcess changes the size of a process's terminal.
func (e *Engine) ResizeProcess(ctx context.Context, tenant string, id sandbox.ID, name string, size sandbox.TerminalSize) error {
	if err := validSize(size); err != nil {
		return err
	}
	return e.inLiving(ctx, tenant, id, name, func(ctx context.Context, p *heldProcess) error {
		return p.live.Resize(ctx, size.Columns, size.Rows)
	})
}

// RemoveProcess kills a process if it still runs, waits for its end and forgets it.
func (e *Engine) RemoveProcess(ctx context.Context, tenant string, id sandbox.ID, name string) error {
	return e.inProcess(ctx, tenant, id, name, func(ctx context.Context, p *heldProcess) error {
		const kill = 9
		ctx, cancel := context.WithTimeoutCause(ctx, e.Patience.Cleanup, errWatchdog)
		defer cancel()
		if !p.ended() {
			if err := p.live.Signal(ctx, kill); err != nil && !errors.Is(err, sandbox.ErrGone) {
				return err
			}
		}
		select {
		case <-p.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		h, err := e.lookUp(tenant, id)
		if err != nil {
			return err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.processes.all = slices.DeleteFunc(h.processes.all, func(other *heldProcess) bool { return other == p })
		return nil
	})
}
