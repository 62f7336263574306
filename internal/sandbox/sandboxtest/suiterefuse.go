// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"glovebox/internal/sandbox"
)

// refusals: what a backend cannot do it says with an UnsupportedError, and it falls back to nothing.
func refusals(t *testing.T, k *kit) {
	t.Helper()
	for _, feature := range []struct {
		name string
		can  bool
		try  func(*testing.T, sandbox.Sandbox) error
	}{
		{"processes", k.Features.Processes, func(t *testing.T, box sandbox.Sandbox) error {
			t.Helper()
			return k.startTrue(t, box)
		}},
		{"dial", k.Features.Dial, func(t *testing.T, box sandbox.Sandbox) error {
			t.Helper()
			conn, err := box.Dial(k.ctx(t), 1)
			if err == nil {
				err = conn.Close()
			}
			return err
		}},
		{"update", k.Features.Update, func(t *testing.T, box sandbox.Sandbox) error {
			t.Helper()
			return box.Update(k.ctx(t), k.Limits)
		}},
		{"pause", k.Features.Pause, func(t *testing.T, box sandbox.Sandbox) error {
			t.Helper()
			return errors.Join(box.Pause(k.ctx(t)), box.Resume(k.ctx(t)))
		}},
		{"snapshot", k.Features.Snapshot, func(t *testing.T, box sandbox.Sandbox) error {
			t.Helper()
			return box.Snapshot(k.ctx(t), "suite")
		}},
		{"warm", k.Features.Warm, func(t *testing.T, _ sandbox.Sandbox) error {
			t.Helper()
			return k.createWarm(t)
		}},
	} {
		t.Run("feature "+feature.name, func(t *testing.T) {
			err := feature.try(t, k.leased(t))
			var unsupported *sandbox.UnsupportedError
			refused := errors.As(err, &unsupported)
			switch {
			case feature.can && refused:
				t.Errorf("claimed and refused: %v", err)
			case !feature.can && !refused:
				t.Errorf("not claimed, and not an UnsupportedError: %v", err)
			case refused && (unsupported.Backend != k.backend.Name() || unsupported.Feature == ""):
				t.Errorf("the refusal does not say who and what: %+v", unsupported)
			}
		})
	}
	// A language that is not there is refused, and the sandbox stays usable.
	t.Run("unknown language", func(t *testing.T) {
		box := k.leased(t)
		if _, err := box.Open(k.ctx(t), sandbox.OpenSpec{Language: "cobol"}); err == nil {
			t.Error("a language that is not there was opened")
		}
		k.exec(t, k.open(t, box), sandbox.Code{Source: k.Cells.Streams})
	})
}

// createWarm makes a warm sandbox: its interpreter is the first session, and has run no user code.
func (k *kit) createWarm(t *testing.T) error {
	t.Helper()
	class := k.Class
	class.Warm = sandbox.WarmPlain
	box, err := k.backend.Create(k.ctx(t), NewID(), class)
	if err != nil {
		return err
	}
	if err := box.Lease(k.ctx(t), sandbox.Lease{Limits: k.Limits}); err != nil {
		return errors.Join(err, box.Destroy(k.ctx(t)))
	}
	_, record := k.exec(t, k.open(t, box), sandbox.Code{Source: k.Cells.Show})
	if record.fault() == nil && record.text(sandbox.EventStdout) != "\n" {
		t.Errorf("a warm interpreter is not fresh: %q", record.text(sandbox.EventStdout))
	}
	return box.Destroy(k.ctx(t))
}

// startTrue runs a plain process that prints, on the backends that have processes.
func (k *kit) startTrue(t *testing.T, box sandbox.Sandbox) error {
	t.Helper()
	record := &transcript{}
	process, err := box.Start(k.ctx(t), sandbox.Command{
		Args: []string{"sh", "-c", "echo out; echo err >&2; exit 3"}, Wall: k.Limits.Wall, Emit: record.emit,
	})
	if err != nil {
		return err
	}
	result, err := process.Wait(k.ctx(t))
	record.close()
	if err != nil {
		return err
	}
	want(t, result, record, sandbox.EndExit)
	if result.ExitCode != 3 || record.text(sandbox.EventStdout) != "out\n" || record.text(sandbox.EventStderr) != "err\n" {
		t.Errorf("got %+v, stdout %q, stderr %q", result, record.text(sandbox.EventStdout), record.text(sandbox.EventStderr))
	}
	return nil
}

func fdName(f *os.File) string { return strconv.FormatUint(uint64(f.Fd()), 10) }
