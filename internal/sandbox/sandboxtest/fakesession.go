// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/sandbox"
)

type fakeSession struct {
	box        *fakeSandbox
	env        map[string]string
	interrupts chan struct{}

	mu   sync.Mutex
	busy bool
	gone bool
	vars map[string]string
}

func (s *fakeSession) Exec(ctx context.Context, code sandbox.Code, emit sandbox.Emit) (sandbox.Result, error) {
	kind, err := s.box.backend.begin(ctx, MethodExec)
	if err != nil {
		return sandbox.Result{}, err
	}
	if code.Wall <= 0 {
		return sandbox.Result{}, errors.New("code without a wall limit")
	}
	if err := s.enter(); err != nil {
		return sandbox.Result{}, err
	}
	defer s.leave(code.Last)
	run := &fakeRun{
		session: s, ctx: ctx, emit: emit, start: time.Now(), wall: time.NewTimer(code.Wall), limit: code.Wall,
	}
	defer run.wall.Stop()
	switch kind {
	case Lie:
		for _, event := range lies() {
			emit(event)
		}
		return lyingResult(), nil
	case Truncate:
		lines := strings.Split(code.Source, "\n")
		run.script(lines[:(len(lines)+1)/2])
		return sandbox.Result{}, ErrFault
	case Fail, Hang:
	}
	for name, value := range code.Inputs {
		s.vars[name] = string(value)
	}
	result := run.script(strings.Split(code.Source, "\n"))
	for _, name := range code.Return {
		if value, ok := s.vars[name]; ok {
			emit(sandbox.Event{Kind: sandbox.EventValue, Name: name, Bundle: textBundle(value)})
		}
	}
	result.Usage = sandbox.Usage{Wall: time.Since(run.start), CPU: time.Millisecond, MemoryPeak: 8 << 20}
	return result, nil
}

func (s *fakeSession) enter() error {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.gone || s.box.gone || s.box.stopped():
		return sandbox.ErrGone
	case s.busy:
		return sandbox.ErrBusy
	}
	s.busy = true
	s.box.running.Add(1)
	return nil
}

func (s *fakeSession) leave(last bool) {
	s.mu.Lock()
	s.busy = false
	s.gone = s.gone || last
	s.mu.Unlock()
	s.box.running.Done()
}

func (s *fakeSession) Interrupt(ctx context.Context) error {
	if _, err := s.box.backend.begin(ctx, MethodInterrupt); err != nil {
		return err
	}
	select {
	case s.interrupts <- struct{}{}:
	default:
	}
	return nil
}

func (s *fakeSession) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	return nil
}

// fakeRun is one cell of the small language: a verb and its words on each line.
type fakeRun struct {
	session *fakeSession
	ctx     context.Context //nolint:containedctx // it lives as long as one Exec
	emit    sandbox.Emit
	start   time.Time
	wall    *time.Timer
	limit   time.Duration
}

func (r *fakeRun) script(lines []string) sandbox.Result {
	for _, line := range lines {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if result, over := r.line(verb, rest); over {
			return result
		}
	}
	return sandbox.Result{End: sandbox.EndOK}
}

func (r *fakeRun) line(verb, rest string) (result sandbox.Result, over bool) {
	first, second, _ := strings.Cut(rest, " ")
	switch verb {
	case "print":
		r.stream(sandbox.EventStdout, []byte(rest+"\n"))
	case "eprint":
		r.stream(sandbox.EventStderr, []byte(rest+"\n"))
	case "bytes", "ebytes":
		text, _ := strconv.Unquote(`"` + rest + `"`)
		r.stream(map[string]sandbox.EventKind{"bytes": sandbox.EventStdout, "ebytes": sandbox.EventStderr}[verb], []byte(text))
	case "late", "elate":
		kind := map[string]sandbox.EventKind{"late": sandbox.EventStdout, "elate": sandbox.EventStderr}[verb]
		r.emit(sandbox.Event{Kind: kind, Text: []byte(rest + "\n"), Background: true})
	case "flood":
		r.flood(rest)
	case "set":
		r.session.vars[first] = second
	case "show":
		r.stream(sandbox.EventStdout, []byte(r.session.vars[first]+"\n"))
	case "env":
		r.stream(sandbox.EventStdout, []byte(r.session.env[first]+"\n"))
	case "value":
		r.emit(sandbox.Event{Kind: sandbox.EventResult, Bundle: textBundle(rest)})
	case "display":
		r.emit(sandbox.Event{Kind: sandbox.EventDisplay, Bundle: &sandbox.Bundle{Data: map[string]json.RawMessage{first: json.RawMessage(second)}}})
	case "notice":
		r.emit(sandbox.Event{Kind: sandbox.EventNotice, Notice: &sandbox.Notice{Code: first, Text: second}})
	case "write", "cat", "link", "fifo", "sparse":
		return r.file(verb, first, second)
	default:
		return r.ending(verb, first, second)
	}
	return sandbox.Result{}, false
}

func (r *fakeRun) ending(verb, first, second string) (sandbox.Result, bool) {
	number, _ := strconv.Atoi(first)
	hit := func(limit sandbox.LimitName, value int64) []sandbox.Hit {
		return []sandbox.Hit{{Limit: limit, Measured: value, Value: value}}
	}
	limits := r.session.box.lease.Limits
	switch verb {
	case "", "#":
		return sandbox.Result{}, false
	case "raise":
		return r.raise(first, second), true
	case "exit":
		if number == 0 {
			return sandbox.Result{End: sandbox.EndOK}, true
		}
		return sandbox.Result{End: sandbox.EndExit, ExitCode: number, StateReset: true}, true
	case "signal":
		return sandbox.Result{End: sandbox.EndSignal, Signal: number, ExitCode: 128 + number, StateReset: true}, true
	case "oom":
		return sandbox.Result{
			End: sandbox.EndOutOfMemory, ExitCode: 137, Signal: 9, StateReset: true, Hits: hit(sandbox.LimitMemory, limits.Memory),
		}, true
	case "pids":
		return sandbox.Result{End: sandbox.EndProcesses, ExitCode: 1, Hits: hit(sandbox.LimitProcesses, limits.Processes)}, true
	case "full":
		return sandbox.Result{End: sandbox.EndDisk, ExitCode: 1, Hits: hit(sandbox.LimitDisk, limits.Disk)}, true
	case "deny":
		return sandbox.Result{End: sandbox.EndPolicy, ExitCode: 159, Detail: "a forbidden call"}, true
	case "spin":
		return r.spin(), true
	default:
		return r.raise("SyntaxError", "unknown verb "+verb), true
	}
}

func (r *fakeRun) raise(name, value string) sandbox.Result {
	r.emit(sandbox.Event{Kind: sandbox.EventError, Fault: &sandbox.Fault{
		Name: name, Value: value, Traceback: "Traceback (most recent call last):\n  line 1\n" + name + ": " + value + "\n",
	}})
	return sandbox.Result{End: sandbox.EndError, ExitCode: 1}
}

// spin runs until something ends it.
func (r *fakeRun) spin() sandbox.Result {
	select {
	case <-r.wall.C:
		return sandbox.Result{
			End: sandbox.EndWallTimeout, ExitCode: 137, Signal: 9, StateReset: true,
			Hits: []sandbox.Hit{{Limit: sandbox.LimitWall, Measured: int64(time.Since(r.start)), Value: int64(r.limit)}},
		}
	case <-r.session.interrupts:
		return r.raise("KeyboardInterrupt", "")
	case <-r.ctx.Done():
		return sandbox.Result{End: sandbox.EndCanceled, ExitCode: 137, Signal: 9, StateReset: true}
	case <-r.session.box.stop:
		return sandbox.Result{End: sandbox.EndCanceled, ExitCode: 137, Signal: 9, StateReset: true}
	}
}

func (r *fakeRun) stream(kind sandbox.EventKind, text []byte) {
	r.emit(sandbox.Event{Kind: kind, Text: text})
}

// flood prints that many bytes in odd pieces.
func (r *fakeRun) flood(count string) {
	const piece = 65_521
	left, _ := strconv.Atoi(count)
	chunk := bytes.Repeat([]byte("x"), piece)
	for left > 0 {
		n := min(left, piece)
		r.stream(sandbox.EventStdout, chunk[:n])
		left -= n
	}
}

func (r *fakeRun) file(verb, name, rest string) (sandbox.Result, bool) {
	path := filepath.Join(r.session.box.dir, "home", filepath.Base(name))
	var err error
	switch verb {
	case "write":
		var text string
		if text, err = strconv.Unquote(`"` + rest + `"`); err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
	case "cat":
		var content []byte
		content, err = os.ReadFile(path)
		r.stream(sandbox.EventStdout, content)
	case "link":
		err = os.Symlink(rest, path)
	case "fifo":
		err = unix.Mkfifo(path, 0o600)
	case "sparse":
		size, _ := strconv.ParseInt(rest, 10, 64)
		err = errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size))
	}
	if err != nil {
		return r.raise("OSError", err.Error()), true
	}
	return sandbox.Result{}, false
}

func textBundle(text string) *sandbox.Bundle {
	encoded, err := json.Marshal(text)
	if err != nil {
		encoded = []byte(`""`)
	}
	return &sandbox.Bundle{Data: map[string]json.RawMessage{"text/plain": encoded}}
}
