// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/internal/sandbox"
)

// ends: each way a cell can end is told from the kernel and our clock.
func ends(t *testing.T, k *kit) {
	t.Helper()
	// The two streams arrive apart and whole.
	t.Run("ok", func(t *testing.T) {
		result, record := k.exec(t, k.session(t), sandbox.Code{Source: k.Cells.Streams, Last: true})
		want(t, result, record, sandbox.EndOK)
		if out, err := record.text(sandbox.EventStdout), record.text(sandbox.EventStderr); out != "out\n" || err != "err\n" {
			t.Errorf("stdout %q, stderr %q", out, err)
		}
		if result.ExitCode != 0 || result.Signal != 0 {
			t.Errorf("got %+v", result)
		}
	})
	// An exception is a Fault and an exit code other than zero.
	t.Run("error", func(t *testing.T) {
		for _, last := range []bool{false, true} {
			result, record := k.exec(t, k.session(t), sandbox.Code{Source: k.Cells.Raise, Last: last})
			want(t, result, record, sandbox.EndError)
			fault := record.fault()
			if fault == nil || fault.Name != "ValueError" || fault.Value != "boom" || !strings.Contains(fault.Traceback, "boom") {
				t.Errorf("fault is %+v", fault)
			}
			if last && result.ExitCode != 1 {
				t.Errorf("exit code is %d", result.ExitCode)
			}
		}
	})
	// The program's exit code is reported, and what it printed before is kept.
	t.Run("exit", func(t *testing.T) {
		result, record := k.exec(t, k.session(t), sandbox.Code{Source: k.Cells.Exit, Last: true})
		want(t, result, record, sandbox.EndExit)
		if result.ExitCode != 3 || record.text(sandbox.EventStdout) != "a\n" {
			t.Errorf("got %+v, stdout %q", result, record.text(sandbox.EventStdout))
		}
	})
	// A signal is named, with the exit code that shells give it; the state is gone.
	t.Run("signal", func(t *testing.T) {
		result, record := k.exec(t, k.session(t), sandbox.Code{Source: k.Cells.Crash})
		want(t, result, record, sandbox.EndSignal)
		if result.Signal != 11 || result.ExitCode != 139 || !result.StateReset {
			t.Errorf("got %+v", result)
		}
	})
	// The wall limit ends a busy cell by our clock; what it printed before is kept; the hit says limit and measure.
	t.Run("wall timeout", func(t *testing.T) {
		const wall = 500 * time.Millisecond
		result, record := k.exec(t, k.session(t), sandbox.Code{Source: k.Cells.Spin, Wall: wall})
		want(t, result, record, sandbox.EndWallTimeout)
		at := slices.IndexFunc(result.Hits, func(h sandbox.Hit) bool { return h.Limit == sandbox.LimitWall })
		if at < 0 || result.Hits[at].Value != int64(wall) || result.Hits[at].Measured < int64(wall) {
			t.Errorf("hits are %+v", result.Hits)
		}
		if got := record.text(sandbox.EventStdout); got != "begun\n" {
			t.Errorf("stdout is %q", got)
		}
	})
	// Memory without end is out_of_memory, as the kernel says.
	t.Run("out of memory", func(t *testing.T) {
		result, record := k.exec(t, k.session(t), sandbox.Code{Source: k.Cells.Hog, Last: true})
		want(t, result, record, sandbox.EndOutOfMemory)
		if !hit(result, sandbox.LimitMemory) || result.ExitCode != 137 {
			t.Errorf("got %+v", result)
		}
	})
	// Processes without end are refused by the kernel's counter.
	t.Run("processes", func(t *testing.T) {
		result, record := k.exec(t, k.session(t), sandbox.Code{Source: k.Cells.Fork, Last: true})
		want(t, result, record, sandbox.EndProcesses)
		if !hit(result, sandbox.LimitProcesses) {
			t.Errorf("hits are %+v", result.Hits)
		}
	})
	// After a Last cell the session is gone.
	t.Run("last ends the session", func(t *testing.T) {
		session := k.session(t)
		k.exec(t, session, sandbox.Code{Source: k.Cells.Streams, Last: true})
		_, err := session.Exec(k.ctx(t), sandbox.Code{Source: k.Cells.Streams, Wall: k.Limits.Wall}, func(sandbox.Event) {})
		if !errors.Is(err, sandbox.ErrGone) {
			t.Errorf("a cell after the last one: %v", err)
		}
	})
}

// apart: state belongs to a session, files to a sandbox.
func apart(t *testing.T, k *kit) {
	t.Helper()
	// State is kept from one cell to the next, and from an error on.
	t.Run("state is kept", func(t *testing.T) {
		session := k.session(t)
		k.exec(t, session, sandbox.Code{Source: k.Cells.Set})
		k.exec(t, session, sandbox.Code{Source: k.Cells.Raise})
		result, record := k.exec(t, session, sandbox.Code{Source: k.Cells.Show})
		want(t, result, record, sandbox.EndOK)
		if got := record.text(sandbox.EventStdout); got != "41\n" {
			t.Errorf("v is %q", got)
		}
	})
	// Two sessions of one sandbox do not see each other's variables.
	t.Run("two sessions", func(t *testing.T) {
		box := k.leased(t)
		one, other := k.open(t, box), k.open(t, box)
		k.exec(t, one, sandbox.Code{Source: k.Cells.Set})
		if _, record := k.exec(t, other, sandbox.Code{Source: k.Cells.Show}); strings.Contains(record.text(sandbox.EventStdout), "41") {
			t.Error("a session sees the other one's variable")
		}
	})
	// Two sandboxes do not see each other's files.
	t.Run("two sandboxes", func(t *testing.T) {
		one, other := k.session(t), k.session(t)
		result, record := k.exec(t, one, sandbox.Code{Source: k.Cells.Write})
		want(t, result, record, sandbox.EndOK)
		result, record = k.exec(t, other, sandbox.Code{Source: k.Cells.ReadOther})
		want(t, result, record, sandbox.EndError)
		if strings.Contains(record.text(sandbox.EventStdout), "hello") {
			t.Error("a sandbox sees the other one's file")
		}
	})
	// Inputs become variables, and the asked names come back.
	t.Run("inputs and values", func(t *testing.T) {
		code := sandbox.Code{Source: k.Cells.Show, Inputs: map[string][]byte{"v": []byte("41")}, Return: []string{"v"}}
		result, record := k.exec(t, k.session(t), code)
		want(t, result, record, sandbox.EndOK)
		if got := record.text(sandbox.EventStdout); got != "41\n" {
			t.Errorf("v is %q", got)
		}
		at := slices.IndexFunc(record.events, func(e sandbox.Event) bool { return e.Kind == sandbox.EventValue })
		if at < 0 || record.events[at].Name != "v" || record.events[at].Bundle == nil {
			t.Errorf("no value came back: %+v", record.events)
		}
	})
	// The lease's and the session's environment are seen by the code.
	t.Run("environment", func(t *testing.T) {
		box := k.leased(t, func(l *sandbox.Lease) { l.Env = map[string]string{"SUITE": "of the lease"} })
		_, record := k.exec(t, k.open(t, box), sandbox.Code{Source: k.Cells.Env})
		if got := record.text(sandbox.EventStdout); got != "of the lease\n" {
			t.Errorf("got %q", got)
		}
		session, err := box.Open(k.ctx(t), sandbox.OpenSpec{Language: k.Language, Env: map[string]string{"SUITE": "of the session"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, record = k.exec(t, session, sandbox.Code{Source: k.Cells.Env}); record.text(sandbox.EventStdout) != "of the session\n" {
			t.Errorf("got %q", record.text(sandbox.EventStdout))
		}
	})
}

// output: printing never kills and never lies.
func output(t *testing.T, k *kit) {
	t.Helper()
	// A flood arrives whole and kills nothing: what is kept of it is the engine's business.
	t.Run("flood", func(t *testing.T) {
		var total int
		session := k.session(t)
		result, err := session.Exec(k.ctx(t), sandbox.Code{Source: k.Cells.Flood, Wall: k.Limits.Wall}, func(e sandbox.Event) {
			if e.Kind == sandbox.EventStdout {
				total += len(e.Text)
			}
		})
		if err != nil || result.End != sandbox.EndOK || total != FloodBytes {
			t.Errorf("%d bytes of %d, %+v, %v", total, FloodBytes, result, err)
		}
		_, record := k.exec(t, session, sandbox.Code{Source: k.Cells.Streams})
		if record.text(sandbox.EventStdout) != "out\n" {
			t.Error("the session does not answer after the flood")
		}
	})
	// Bytes arrive as they were written, wherever characters are cut.
	t.Run("characters cut in two", func(t *testing.T) {
		_, record := k.exec(t, k.session(t), sandbox.Code{Source: k.Cells.Text})
		if got := record.text(sandbox.EventStdout); got != TextWanted+"\n" {
			t.Errorf("got %q", got)
		}
	})
	// After Exec returns nothing more is emitted for it, whatever the cell left alive.
	t.Run("nothing after exec returned", func(t *testing.T) {
		session := k.session(t)
		result, record := k.exec(t, session, sandbox.Code{Source: k.Cells.Background})
		want(t, result, record, sandbox.EndOK)
		k.exec(t, session, sandbox.Code{Source: k.Cells.Streams})
		record.mu.Lock()
		defer record.mu.Unlock()
		if record.late > 0 {
			t.Errorf("%d events came after Exec had returned", record.late)
		}
	})
	// The code's file name and a cell that prints nothing are fine.
	t.Run("empty cell", func(t *testing.T) {
		result, record := k.exec(t, k.session(t), sandbox.Code{Source: "", Last: true})
		want(t, result, record, sandbox.EndOK)
	})
}
