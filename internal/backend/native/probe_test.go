// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	"glovebox/internal/backend/native"
	"glovebox/internal/sandbox"
)

// TestMissingLayersAreNamed: every layer by its name, and what mends several of them once.
func TestMissingLayersAreNamed(t *testing.T) {
	t.Parallel()
	got := native.DescribeMissing([]sandbox.Layer{
		{Name: "user_namespace", Detail: "refused", Mend: "allow it"},
		{Name: "pid_namespace", Detail: "refused", Mend: "allow it"},
		{Name: "landlock", Detail: "none", Mend: "newer kernel"},
		{Name: "seccomp", Detail: "none"},
	})
	if want := "user_namespace, pid_namespace (refused): allow it; landlock (none): newer kernel; seccomp (none)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
