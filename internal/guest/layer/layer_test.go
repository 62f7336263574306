// SPDX-License-Identifier: Apache-2.0

//go:build !glovebox_weaken

package layer_test

import (
	"testing"

	"glovebox/internal/guest/layer"
)

// TestShippedGuestKeepsItsLayers: whatever a guest is told, it leaves out nothing but what a host may lack.
func TestShippedGuestKeepsItsLayers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		layer.Users, layer.PIDs, layer.Mounts, layer.Network, layer.IPC, layer.UTS, layer.Cgroups, layer.Seccomp, "", "other",
	} {
		if set := (layer.Set{name}); set.Has(name) || set.Check() == nil {
			t.Errorf("%q can be left out", name)
		}
	}
	for _, name := range []string{layer.Landlock, layer.UID} {
		if set := (layer.Set{name}); !set.Has(name) || set.Check() != nil {
			t.Errorf("%s cannot be left out on a host without it", name)
		}
	}
}
