// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"strings"
	"testing"
	"time"

	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// cell runs one cell of a living session.
func cell(t *testing.T, session sandbox.Session, source string) *ran {
	t.Helper()
	r := &ran{}
	var err error
	if r.Result, err = session.Exec(t.Context(), sandbox.Code{Source: source, Name: "cell", Wall: sandboxtest.Patient(20 * time.Second)}, r.take); err != nil {
		t.Fatal(err)
	}
	return r
}

// fork forks a session, which must be able to.
func fork(t *testing.T, session sandbox.Session) (sandbox.Session, error) {
	t.Helper()
	forker, ok := session.(sandbox.Forker)
	if !ok {
		t.Fatal("the session cannot be forked")
	}
	return forker.Fork(t.Context())
}

// TestForkSession: siblings begin with all variables, go their own ways, draw different random numbers and charts of
// their own, end each with its own end, and the parent goes on.
func TestForkSession(t *testing.T) {
	b := newBackend(t)
	for name, class := range map[string]sandbox.Class{"started": class(), "forked": warmClass()} {
		t.Run(name, func(t *testing.T) {
			l := limits(func(l *sandbox.Limits) { l.Memory = 1 << 30 })
			box := lease(t, b, class, l)
			session, err := box.Open(t.Context(), sandbox.OpenSpec{Language: "python"})
			if err != nil {
				t.Fatal(err)
			}
			cell(t, session, "import pandas as pd, matplotlib.pyplot as plt, random\ndf = pd.DataFrame({'a': range(1000)})\nn = 0\nplt.plot([1, 2])")
			drawn := make(map[string]bool)
			var siblings []sandbox.Session
			for range 3 {
				sibling, err := fork(t, session)
				if err != nil {
					t.Fatal(err)
				}
				siblings = append(siblings, sibling)
			}
			for i, sibling := range append(siblings, session) {
				r := cell(t, sibling, "n += 1\nprint(n, df.a.sum())\nprint(random.random())\nplt.bar(['年'], [n])\nplt.title('标题')")
				first, rest, _ := strings.Cut(r.stdout.String(), "\n")
				if r.End != sandbox.EndOK || first != "1 499500" || drawn[rest] {
					t.Errorf("sibling %d: end %s, %q, %q, %+v", i, r.End, r.stdout.String(), r.stderr.String(), r.fault)
				}
				drawn[rest] = true
			}
			if r := cell(t, siblings[0], "import os; os._exit(9)"); r.End != sandbox.EndExit || r.ExitCode != 9 || !r.StateReset {
				t.Errorf("end %s, exit code %d", r.End, r.ExitCode)
			}
			if r := cell(t, siblings[1], "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"); r.End != sandbox.EndSignal || r.Signal != 11 {
				t.Errorf("end %s, signal %d", r.End, r.Signal)
			}
			if r := cell(t, siblings[2], "n += 1; print(n)"); r.stdout.String() != "2\n" {
				t.Errorf("the third sibling printed %q", r.stdout.String())
			}
		})
	}
}

// TestForkOfABusySession is refused and harms nothing.
func TestForkOfABusySession(t *testing.T) {
	b := newBackend(t)
	box := lease(t, b, class(), sandboxtest.DefaultLimits())
	session, err := box.Open(t.Context(), sandbox.OpenSpec{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	code := sandbox.Code{Source: "print('on', flush=True)\nwhile True: pass", Wall: sandboxtest.Patient(20 * time.Second)}
	result, err := session.Exec(t.Context(), code, func(e sandbox.Event) {
		if e.Kind != sandbox.EventStdout {
			return
		}
		if _, err := fork(t, session); err == nil {
			t.Error("a busy session was forked")
		}
		go func() { _ = session.Interrupt(t.Context()) }()
	})
	if err != nil || result.End != sandbox.EndError {
		t.Errorf("end %s, %v", result.End, err)
	}
}

// TestForkLies: an interpreter that breaks its part of a fork fails that fork and no other thing.
func TestForkLies(t *testing.T) {
	b := newBackend(t)
	box := lease(t, b, class(), limits(func(l *sandbox.Limits) { l.Processes = 8 }))
	session, err := box.Open(t.Context(), sandbox.OpenSpec{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	cell(t, session, "import os\nkeep, os.fork = os.fork, lambda: 1/0")
	if _, err := fork(t, session); err == nil {
		t.Error("a fork that failed was reported as done")
	}
	if r := cell(t, session, "os.fork = keep; print('still here')"); r.stdout.String() != "still here\n" {
		t.Errorf("after a failed fork: end %s, %q", r.End, r.stdout.String())
	}
}
