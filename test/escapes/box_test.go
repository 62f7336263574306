// SPDX-License-Identifier: Apache-2.0

package escapes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"glovebox/internal/sandbox"
)

func openBox(t *testing.T, b sandbox.Backend, warm sandbox.Warmth, wall time.Duration, files ...sandbox.InputFile) (sandbox.Sandbox, sandbox.Session) {
	t.Helper()
	box := lease(t, b, sandbox.ProfileStandard, warm, wall, files...)
	return box, openSession(t, box)
}

// lease makes a sandbox and gives it its limits.
func lease(t *testing.T, b sandbox.Backend, profile sandbox.Profile, warm sandbox.Warmth, wall time.Duration, files ...sandbox.InputFile) sandbox.Sandbox {
	t.Helper()
	id := sandbox.ID(fmt.Sprintf("finding%d", time.Now().UnixNano()))
	box, err := b.Create(t.Context(), id, sandbox.Class{
		Image: "python", Profile: profile, Network: sandbox.NetworkNone, Warm: warm,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	limits := sandbox.Limits{
		Wall: wall, CPUTime: wall, Memory: 512 << 20, MilliCPU: 1000, Processes: 64, OpenFiles: 256, Disk: 256 << 20,
		Inodes: 32768, Tmp: 64 << 20, Output: outputLimit,
	}
	if err := box.Lease(t.Context(), sandbox.Lease{Limits: limits, Files: files}); err != nil {
		t.Fatal(err)
	}
	return box
}

func openSession(t *testing.T, box sandbox.Sandbox) sandbox.Session {
	t.Helper()
	session, err := box.Open(t.Context(), sandbox.OpenSpec{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// seen is what came out of a cell.
type seen struct {
	sandbox.Result
	stdout   strings.Builder
	displays []int // bytes of each
	faults   int
	notices  []string
	took     time.Duration
}

func (s *seen) take(e sandbox.Event) {
	switch e.Kind {
	case sandbox.EventStdout:
		if !e.Background && s.stdout.Len() < keep {
			s.stdout.Write(e.Text)
		}
	case sandbox.EventDisplay:
		size := 0
		for _, value := range e.Bundle.Data {
			size += len(value)
		}
		s.displays = append(s.displays, size)
	case sandbox.EventError:
		s.faults++
	case sandbox.EventNotice:
		s.notices = append(s.notices, e.Notice.Code)
	}
}

func cell(t *testing.T, session sandbox.Session, source string, wall time.Duration, last bool, emit sandbox.Emit) *seen {
	t.Helper()
	s := &seen{}
	began := time.Now()
	var err error
	s.Result, err = session.Exec(t.Context(), sandbox.Code{Source: source, Name: "cell.py", Wall: wall, Last: last}, func(e sandbox.Event) {
		s.take(e)
		if emit != nil {
			emit(e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.took = time.Since(began)
	return s
}
