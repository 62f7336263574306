// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"glovebox/internal/guest/layer"
	"glovebox/internal/guest/layout"
)

// Template is the confinement that everything in a box shares, whether it is started by the guest or forked by a
// zygote.
func Template(limits Limits, cgroups int, without layer.Set) Spec {
	const readExecute = AccessRead | AccessExecute
	const all = readExecute | AccessWrite
	spec := Spec{
		UID: layout.UserUID, GID: layout.UserUID,
		Rlimits: Rlimits(limits),
		Filter:  CompileFilter(),
		Cgroups: cgroups,
		Paths: []PathRule{
			{Path: "/", Access: readExecute},
			{Path: layout.Workspace, Access: all},
			{Path: layout.Tmp, Access: all},
			{Path: "/dev", Access: AccessRead | AccessWrite},
			{Path: layout.Shm, Access: all},
			{Path: "/proc", Access: AccessRead | AccessWrite},
		},
		Without: without,
	}
	if without.Has(layer.UID) {
		spec.UID, spec.GID = layout.RootUID, layout.RootUID
	}
	return spec
}
