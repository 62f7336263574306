// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Subject is what runs works: this program, or a peer.
type Subject interface {
	Name() string
	// Run runs the work once in a fresh sandbox. Latency counts from began.
	Run(ctx context.Context, work Work, began time.Time) Sample
	Close() error
}

// program is a Subject that starts a process for each run. The code is its standard input.
type program struct {
	name string
	now  func() time.Time
	// args is the whole command line.
	args []string
	// change adapts the command; it may be nil.
	change func(*exec.Cmd)
	// countsFaults says that the kernel's counters of the process cover what it starts.
	countsFaults bool
	close        func() error
}

func (p *program) Name() string { return p.name }

func (p *program) Close() error {
	if p.close == nil {
		return nil
	}
	return p.close()
}

// runPatience is how long a run may take, whatever the subject.
const runPatience = 2 * time.Minute

var errTooLong = errors.New("the run took longer than two minutes")

// Run starts the process and waits for its end.
func (p *program) Run(ctx context.Context, work Work, began time.Time) Sample {
	ctx, cancel := context.WithTimeoutCause(ctx, runPatience, errTooLong)
	defer cancel()
	command := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	command.WaitDelay = time.Second
	command.Stdin = strings.NewReader(work.Code)
	stdout := &stamped{now: p.now}
	var stderr bytes.Buffer
	command.Stdout, command.Stderr = stdout, &stderr
	if p.change != nil {
		p.change(command)
	}
	err := command.Run()
	s := Sample{Result: stdout.last.Sub(began), End: p.now().Sub(began), Faults: unknownFaults, Output: stdout.String()}
	if err == nil && stdout.last.IsZero() {
		s.Result = s.End
	}
	if p.countsFaults {
		s.Faults = faultsOf(command)
	}
	if s.Err = work.check(s.Output); err != nil {
		s.Err = fmt.Errorf("%w: %s", err, lastLine(stderr.String()))
	}
	return s
}

func faultsOf(command *exec.Cmd) int64 {
	if command.ProcessState == nil {
		return unknownFaults
	}
	usage, ok := command.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return unknownFaults
	}
	return usage.Minflt + usage.Majflt
}

// stamped keeps what is written, and when the last of it came.
type stamped struct {
	bytes.Buffer
	now  func() time.Time
	last time.Time
}

func (s *stamped) Write(p []byte) (int, error) {
	s.last = s.now()
	return s.Buffer.Write(p)
}

// lastLine is usually the one that says what is wrong.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	text = text[strings.LastIndexByte(text, '\n')+1:]
	const most = 300
	return strings.ToValidUTF8(text[:min(len(text), most)], "?")
}
