// SPDX-License-Identifier: Apache-2.0

package proof_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/image/imagetest"
	"glovebox/internal/proof"
)

// answers runs nothing and gives every attack the same record.
type answers struct {
	record engine.Execution
	err    error
}

func (a answers) Run(context.Context, engine.Request, engine.Sink) (*engine.Execution, error) {
	return &a.record, a.err
}

// TestNothingHolds: on a host where every attack succeeds no limit is called enforced, and each says how to mend it.
func TestNothingHolds(t *testing.T) {
	runner := answers{record: engine.Execution{Status: "ok", Stdout: "BROKEN: got through\nstarted\n"}}
	runner.record.Usage.Wall, runner.record.Usage.CPU = 1, 1
	items, err := proof.Prove(t.Context(), runner, proof.Target{Backend: "native", Image: "python"}, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		// Nothing was started, so nothing is left: the one attack that a runner of nothing cannot lose. The disk is
		// judged by figures, see TestDiskIsJudgedByRatio.
		if item.Limit != "leftover processes" && item.Limit != "disk_io" && (item.State != proof.NotEnforced || item.Mend == "" || item.Evidence == "") {
			t.Errorf("%+v", item)
		}
	}
	if broken := len(proof.Broken(items)); broken != len(items)-2 {
		t.Errorf("%d of %d are broken", broken, len(items))
	}
}

// TestSlowStartIsNoBrokenLimit: what the start of an interpreter used is not taken for what the busy loop used. Where
// processors are slow the limit was called not enforced.
func TestSlowStartIsNoBrokenLimit(t *testing.T) {
	t.Parallel()
	runner := answers{record: engine.Execution{Status: "ok"}}
	runner.record.Stdout = "used 0.25\n"
	runner.record.Usage.CPU, runner.record.Usage.Setup, runner.record.Usage.Wall = 3.3, 12, 1.5
	items, err := proof.Prove(t.Context(), runner, proof.Target{Backend: "native", Image: "python"}, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if item.Limit == "cpu" && item.State != proof.Enforced {
			t.Errorf("%+v", item)
		}
	}
}

// TestAttacksThatCannotRun are unknown, and count as broken: silence proves nothing.
func TestAttacksThatCannotRun(t *testing.T) {
	for name, runner := range map[string]answers{
		"refused":     {err: errors.New("no")},
		"our failure": {record: engine.Execution{Status: "infra", Message: "the sandbox broke"}},
	} {
		items, err := proof.Prove(t.Context(), runner, proof.Target{Backend: "native", Image: "python"}, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if item.State == proof.Enforced {
				t.Errorf("%s: %+v", name, item)
			}
		}
		// No sandbox has a disk limit unless it asks for it: one that cannot be measured keeps no server from starting.
		if len(proof.Broken(items)) != len(items)-1 {
			t.Errorf("%s: not all but disk_io are broken", name)
		}
	}
}

type oneImage struct{ rootfs string }

func (i oneImage) Use(string) (string, func(), error) { return i.rootfs, func() {}, nil }

// TestNativeProof: every limit is attacked on this host and holds.
func TestNativeProof(t *testing.T) {
	rootfs := imagetest.Rootfs(t)
	if os.Geteuid() != 0 {
		t.Skip("native sandboxes need root")
	}
	c := config.Default(2)
	c.Data, c.Runtime = t.TempDir(), "/run/glovebox"
	system, err := daemon.Open(c, daemon.Options{Images: oneImage{rootfs}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, context.DeadlineExceeded)
		defer cancel()
		if err := system.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	items, err := proof.Prove(t.Context(), system.Engine, proof.Target{Backend: "native", Image: "python"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, item := range items {
		table.WriteString("\n" + item.Limit + ": " + string(item.State) + ": " + item.Evidence)
		// The one limit that a host may lack, and then says so.
		if item.State != proof.Enforced && (item.Limit != "disk_io" || item.State != proof.NotSupported) {
			t.Errorf("%+v", item)
		}
	}
	t.Log(table.String())
}
