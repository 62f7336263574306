// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"slices"
	"testing"

	"glovebox/internal/sandbox"
)

// TestOutcome: the one End for each set of facts.
func TestOutcome(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		facts sandbox.Facts
		end   sandbox.End
		code  int
	}{
		{"cell done", sandbox.Facts{Claim: sandbox.EndOK}, sandbox.EndOK, 0},
		{"cell raised", sandbox.Facts{Claim: sandbox.EndError, ClaimedExit: 1}, sandbox.EndError, 1},
		{"error claimed without a code", sandbox.Facts{Claim: sandbox.EndError}, sandbox.EndError, 1},
		{"script left with 3", sandbox.Facts{Exited: true, ExitCode: 3, Claim: sandbox.EndExit, ClaimedExit: 3}, sandbox.EndExit, 3},
		{"claims 0, kernel says 3", sandbox.Facts{Exited: true, ExitCode: 3, Claim: sandbox.EndOK}, sandbox.EndExit, 3},
		{"left without a word", sandbox.Facts{Exited: true, ExitCode: 7}, sandbox.EndExit, 7},
		{"left well without a word", sandbox.Facts{Exited: true}, sandbox.EndOK, 0},
		{"segmentation fault", sandbox.Facts{Exited: true, Signal: 11}, sandbox.EndSignal, 139},
		{"killed by the kernel for memory", sandbox.Facts{Exited: true, Signal: 9, OOMKills: 1}, sandbox.EndOutOfMemory, 137},
		{"a child was killed, the program went on", sandbox.Facts{Claim: sandbox.EndOK, OOMKills: 1}, sandbox.EndOK, 0},
		{"a child was killed and the program failed", sandbox.Facts{Claim: sandbox.EndError, OOMKills: 1}, sandbox.EndOutOfMemory, 1},
		{"fork refused and failed", sandbox.Facts{Claim: sandbox.EndError, PIDRefusals: 2}, sandbox.EndProcesses, 1},
		{"fork refused and caught", sandbox.Facts{Claim: sandbox.EndOK, PIDRefusals: 2}, sandbox.EndOK, 0},
		{"disk full and failed", sandbox.Facts{Claim: sandbox.EndError, Full: true}, sandbox.EndDisk, 1},
		{"time is up", sandbox.Facts{WallTimeout: true, Exited: true, Signal: 9}, sandbox.EndWallTimeout, 137},
		{"time is up and memory too", sandbox.Facts{WallTimeout: true, OOMKills: 1, Exited: true, Signal: 9}, sandbox.EndWallTimeout, 137},
		{"processor time is up", sandbox.Facts{CPUTimeout: true, Exited: true, Signal: 9}, sandbox.EndCPUTimeout, 137},
		{"canceled", sandbox.Facts{Canceled: true, Exited: true, Signal: 9}, sandbox.EndCanceled, 137},
		{"canceled while time was up", sandbox.Facts{Canceled: true, WallTimeout: true}, sandbox.EndCanceled, 0},
		{"we failed", sandbox.Facts{Infra: true, Canceled: true}, sandbox.EndInfra, 0},
	}
	for _, c := range cases {
		end, code, _ := c.facts.Outcome()
		if end != c.end || code != c.code {
			t.Errorf("%s: got %s %d, want %s %d", c.name, end, code, c.end, c.code)
		}
		if !slices.Contains(sandbox.Ends(), end) {
			t.Errorf("%s: %s is not among Ends", c.name, end)
		}
	}
}

// TestIDAndFileName: what names may look like, at their limits and one past them.
func TestIDAndFileName(t *testing.T) {
	t.Parallel()
	repeat := func(n int) string { return string(slices.Repeat([]byte{'a'}, n)) }
	for id, valid := range map[string]bool{
		"a0": true, repeat(sandbox.MaxID): true, repeat(sandbox.MaxID + 1): false, "": false, "A": false, "a/b": false,
		"a-b": false, "..": false, "é": false,
	} {
		if sandbox.ID(id).Valid() != valid {
			t.Errorf("id %q: valid is not %v", id, valid)
		}
	}
	for name, valid := range map[string]bool{
		"data.csv": true, "Simple – Génération.csv": true, "数据 表.xlsx": true, "📈.csv": true, "a'b;$(id).csv": true,
		repeat(sandbox.MaxFileName): true, repeat(sandbox.MaxFileName + 1): false, "": false, ".": false, "..": false,
		"../x": false, `..\x`: false, "/abs": false, "a\x00b": false, "a\nb": false, "a\u202eb": false, "\xff": false,
	} {
		if err := sandbox.ValidFileName(name); (err == nil) != valid {
			t.Errorf("file name %q: %v", name, err)
		}
	}
}
