// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/confine"
	"glovebox/internal/guest/wire"
)

// child is a confined program.
type child struct {
	pid    int
	status <-chan unix.WaitStatus
	// channel is this side of the child's descriptor 3, if it was asked for.
	channel        *os.File
	stdin          *os.File
	stdout, stderr *os.File
}

// program says what to start.
type program struct {
	args    []string
	dir     string
	env     map[string]string
	channel bool
	stdin   bool
	// terminal, if set, becomes the three standard streams.
	terminal *wire.Size
}

// maxConfineError bounds what a child may say about why it could not start.
const maxConfineError = 4096

// startTimeout is how long a program may take to be confined, and an interpreter to be ready; the daemon waits a little
// longer. What runs in the box already can stop a newcomer as soon as that has its user.
const startTimeout = 25 * time.Second

// start runs a program confined. The error, if any, is the child's own reason.
func (a *Agent) start(p program) (*child, error) {
	deadline := time.Now().Add(startTimeout)
	if err := a.enterStarting(deadline); err != nil {
		return nil, err
	}
	defer func() { <-a.starting }()
	ends, err := openEnds(p)
	if err != nil {
		return nil, err
	}
	defer ends.closeChildSide()
	files := []uintptr{ends.in.Fd(), ends.out.Fd(), ends.err.Fd(), ends.channel.Fd(), ends.spec.Fd()}
	for _, fd := range a.cgroups {
		files = append(files, uintptr(fd))
	}
	pid, status, err := a.reaper.Start(func() (int, error) {
		return syscall.ForkExec("/proc/self/exe", []string{"guest", confine.Command}, &syscall.ProcAttr{Files: files, Env: []string{}})
	})
	if err != nil {
		ends.closeOurSide()
		return nil, fmt.Errorf("start a process: %w", err)
	}
	ends.closeChildSide()
	if err := a.confine(ends.ourSpec, p, deadline); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		ends.closeOurSide()
		return nil, err
	}
	return &child{
		pid: pid, status: status, channel: ends.ourChannel, stdin: ends.ourIn, stdout: ends.ourOut, stderr: ends.ourErr,
	}, nil
}

// maxStarting bounds the programs that are being confined at once: until they are, they count against the guest's own
// reserve.
const maxStarting = 6

func (a *Agent) enterStarting(deadline time.Time) error {
	select {
	case a.starting <- struct{}{}:
		return nil
	case <-time.After(time.Until(deadline)):
		return errors.New("too many programs are being started in this sandbox")
	}
}

// confine sends the confinement and waits until the program runs.
func (a *Agent) confine(socket *os.File, p program, deadline time.Time) error {
	defer socket.Close()
	if err := socket.SetDeadline(deadline); err != nil {
		return err
	}
	spec := a.template
	spec.Args, spec.Dir, spec.Terminal = p.args, p.dir, p.terminal != nil
	for name, value := range p.env {
		spec.Env = append(spec.Env, name+"="+value)
	}
	slices.Sort(spec.Env)
	spec.Keep = 3
	if p.channel {
		spec.Keep = 4
	}
	if err := json.NewEncoder(socket).Encode(spec); err != nil {
		return fmt.Errorf("send confinement: %w", err)
	}
	reason, err := io.ReadAll(io.LimitReader(socket, maxConfineError))
	if err != nil {
		return fmt.Errorf("wait for %s to start: %w", p.args[0], err)
	}
	if len(reason) > 0 {
		return fmt.Errorf("start %s: %s", p.args[0], reason)
	}
	return nil
}

// ends are both sides of a child's descriptors.
type ends struct {
	in, out, err, channel, spec                *os.File
	ourIn, ourOut, ourErr, ourChannel, ourSpec *os.File
}

func openEnds(p program) (*ends, error) {
	e := &ends{}
	err := errors.Join(e.open(p)...)
	if err != nil {
		e.closeChildSide()
		e.closeOurSide()
		return nil, err
	}
	return e, nil
}

func (e *ends) open(p program) []error {
	var err error
	errs := e.openStreams(p)
	if p.channel {
		e.ourChannel, e.channel, err = socketPair()
	} else {
		e.channel, err = os.Open(os.DevNull)
	}
	errs = append(errs, err)
	e.ourSpec, e.spec, err = socketPair()
	return append(errs, err)
}

func (e *ends) openStreams(p program) []error {
	if p.terminal != nil {
		return []error{e.openTerminal(*p.terminal)}
	}
	var out, errOut, in error
	e.ourOut, e.out, out = pipe(true)
	e.ourErr, e.err, errOut = pipe(true)
	if p.stdin {
		e.in, e.ourIn, in = pipe(false)
	} else {
		e.in, in = os.Open(os.DevNull)
	}
	return []error{out, errOut, in}
}

func (e *ends) closeChildSide() {
	for _, file := range []*os.File{e.in, e.out, e.err, e.channel, e.spec} {
		_ = file.Close() // closing twice, or nil, is an error and no harm
	}
}

func (e *ends) closeOurSide() {
	for _, file := range []*os.File{e.ourIn, e.ourOut, e.ourErr, e.ourChannel, e.ourSpec} {
		_ = file.Close()
	}
}

// pipe returns a read end and a write end. Only our end is non-blocking, so that waiting on it can be given up; programs
// expect theirs to block.
func pipe(weRead bool) (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	ours := fds[0]
	if !weRead {
		ours = fds[1]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket"), nil
}
