// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"testing"

	"glovebox/internal/sandbox"
)

// TestMissingLayersAreNamed: every layer by its name, and what mends several of them once.
func TestMissingLayersAreNamed(t *testing.T) {
	t.Parallel()
	got := sandbox.DescribeLayers([]sandbox.Layer{
		{Name: "user_namespace", Detail: "refused", Mend: "allow it"},
		{Name: "pid_namespace", Detail: "refused", Mend: "allow it"},
		{Name: "landlock", Detail: "none", Mend: "newer kernel"},
		{Name: "seccomp", Detail: "none"},
	})
	if want := "user_namespace, pid_namespace (refused): allow it; landlock (none): newer kernel; seccomp (none)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestLostLayers: advice is not a loss, and what is required is missing, not lost.
func TestLostLayers(t *testing.T) {
	t.Parallel()
	capabilities := sandbox.Capabilities{Layers: []sandbox.Layer{
		{Name: "there", Present: true}, {Name: "required", Required: true}, {Name: "advice", Advice: true}, {Name: "lost"},
	}}
	if lost := capabilities.Lost(); len(lost) != 1 || lost[0].Name != "lost" {
		t.Errorf("lost: %v", lost)
	}
	if missing := capabilities.Missing(); len(missing) != 1 || missing[0].Name != "required" {
		t.Errorf("missing: %v", missing)
	}
}
