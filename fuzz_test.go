// SPDX-License-Identifier: Apache-2.0

package glovebox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFuzzForgivesOnlyTheClock: a run of scripts/fuzz may not fail because its time ended, and may not pass for anything else.
func TestFuzzForgivesOnlyTheClock(t *testing.T) {
	tests := []struct {
		name, output string
		forgiven     bool
	}{
		{"the time ended", "fuzz: elapsed: 10s, execs: 526346 (48995/sec)\n--- FAIL: FuzzReader (10.03s)\n    context deadline exceeded\nFAIL\nexit status 1\n", true},
		{"an input failed", "--- FAIL: FuzzReader (0.02s)\n    --- FAIL: FuzzReader (0.00s)\n        wire_test.go:9: context deadline exceeded\n    \n    Failing input written to testdata/fuzz/FuzzReader/582528ddfad69eb5\nFAIL\n", false},
		{"a seed failed", "--- FAIL: FuzzReader (0.02s)\n    --- FAIL: FuzzReader/seed#1 (0.00s)\n        wire_test.go:9: context deadline exceeded\nFAIL\n", false},
		{"a worker hung", "--- FAIL: FuzzReader (10.03s)\n    fuzzing process hung or terminated unexpectedly: exit status 2\nFAIL\n", false},
		{"more than the clock", "--- FAIL: FuzzReader (10.03s)\n    context deadline exceeded\n    wire_test.go:9: lost a frame\nFAIL\n", false},
		{"it does not build", "FAIL\tglovebox/internal/guest/wire [build failed]\nFAIL\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			output := filepath.Join(t.TempDir(), "output")
			if err := os.WriteFile(output, []byte(tt.output), 0o600); err != nil {
				t.Fatal(err)
			}
			err := exec.CommandContext(t.Context(), "bash", "scripts/fuzz", "--judge", output).Run()
			if forgiven := err == nil; forgiven != tt.forgiven {
				t.Errorf("forgiven: %v, want %v (%v)", forgiven, tt.forgiven, err)
			}
		})
	}
}
