// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"glovebox/internal/artifact"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRecordFormat holds the object of `run --json` and of the REST answer to its golden file: what stands there is
// what clients rely on.
func TestRecordFormat(t *testing.T) {
	t.Parallel()
	measured := 2.25
	x := &engine.Execution{
		ID: "abcdefgh0123456789", Status: "wall_timeout", ExitCode: 137, Message: "the code ran longer than the limit of 2s and was ended",
		Stdout: "hello\n", Stderr: "oh\n", Truncated: true,
		Output: engine.Output{
			Stdout: engine.StreamTotals{Bytes: 200_000, Kept: 200_000, Omitted: 68_928}, Stderr: engine.StreamTotals{Bytes: 3, Kept: 3},
		},
		Results: []engine.Data{
			{"image/png": json.RawMessage(`"aGVsbG8="`), "text/plain": json.RawMessage(`"<Figure>"`)},
			{"application/json": json.RawMessage(`{"a":[1,null]}`)},
		},
		Values:    map[string]engine.Data{"v": {"text/plain": json.RawMessage(`"42"`)}},
		Artifacts: []artifact.Artifact{{Name: "数据/out.csv", Size: 8, MIME: "text/csv", SHA256: "00ff"}},
		Skipped:   []artifact.Skip{{Reason: artifact.ReasonLink, Count: 1, Names: []string{"away"}}},
		Error:     &sandbox.Fault{Name: "ValueError", Value: "boom", Traceback: "Traceback ...\nValueError: boom\n"},
		Usage: engine.Usage{
			Wall: 2.25, CPU: 1.5, MemoryPeak: 1 << 20, PIDsPeak: 3, OOMKills: 1, PIDRefusals: 2, StdoutBytes: 200_000, StderrBytes: 3,
			ArtifactSize: 8, Queue: 0.5, Setup: 0.25, Total: 3,
		},
		Limits: map[string]engine.Limit{
			"wall": {Value: 2, Hit: true, Measured: &measured}, "memory": {Value: 512 << 20},
		},
		Policy: "standard", Image: "python", Backend: "native", Warnings: []sandbox.Notice{{Code: "file_skipped", Text: "links are not followed"}},
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Tenant: "acme", Key: "k1",
	}
	got, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/execution.json"
	if *update {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Error(diff)
	}
}

// TestEveryEndHasAnExitCode: the codes of the command line are part of the interface.
func TestEveryEndHasAnExitCode(t *testing.T) {
	t.Parallel()
	want := map[sandbox.End]int{
		sandbox.EndInfra: 70, sandbox.EndCanceled: 130, sandbox.EndExpired: 124, sandbox.EndPolicy: 3, sandbox.EndWallTimeout: 124, sandbox.EndCPUTimeout: 124,
		sandbox.EndOutOfMemory: 137, sandbox.EndProcesses: 7, sandbox.EndDisk: 7, sandbox.EndSignal: 7, sandbox.EndExit: 7,
		sandbox.EndError: 7, sandbox.EndOK: 0,
	}
	for _, end := range sandbox.Ends() {
		x := engine.Execution{Status: engine.Status(end), ExitCode: 7}
		if got := x.CommandExitCode(); got != want[end] {
			t.Errorf("%s: %d, want %d", end, got, want[end])
		}
	}
}
