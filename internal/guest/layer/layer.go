// SPDX-License-Identifier: Apache-2.0

package layer

import (
	"fmt"
	"slices"
)

// The layers, by the names that `glovebox doctor` shows.
const (
	Users    = "user_namespace"
	PIDs     = "pid_namespace"
	Mounts   = "mount_namespace"
	Network  = "network_namespace"
	IPC      = "ipc_namespace"
	UTS      = "uts_namespace"
	Cgroups  = "cgroup_namespace"
	Landlock = "landlock"
	Seccomp  = "seccomp"
	// UID is that programs run as another user than the guest.
	UID = "uid"
)

// Set are layers that are left out.
type Set []string

// Has reports whether a layer is to be left out, and may be.
func (s Set) Has(name string) bool { return mayLeaveOut(name) && slices.Contains(s, name) }

// Check refuses a set with a layer that this guest never leaves out.
func (s Set) Check() error {
	for _, name := range s {
		if !mayLeaveOut(name) {
			return fmt.Errorf("this guest never leaves out %q", name)
		}
	}
	return nil
}
