// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"
	"path/filepath"

	"glovebox/internal/backend/native"
	"glovebox/internal/rootless"
	"glovebox/internal/sandbox"
)

// Settings are what a backend may need.
type Settings struct {
	// State is a folder of the backend's own in the data folder; Runtime is for what must not outlive a reboot.
	State   string
	Runtime string
	// Rootfs returns the root folder of an image by the reference of a Class, and how to let go of it.
	Rootfs func(image string) (dir string, release func(), err error)
	// AcceptMissing names layers that a backend may do without where the host lacks them.
	AcceptMissing []string
	// Namespace is the user namespace of this process.
	Namespace rootless.Namespace
	Log       *slog.Logger
}

// Constructor makes a backend.
type Constructor struct {
	Name string
	New  func(Settings) (sandbox.Backend, error)
}

// Backends is the list of backends, the strongest first: that is what auto takes.
//
// To add one: a row here, see package sandbox.
func Backends() []Constructor {
	return []Constructor{
		{Name: native.Name, New: newNative},
	}
}

func newNative(s Settings) (sandbox.Backend, error) {
	return native.New(native.Config{
		StateDir: filepath.Join(s.State, native.Name), RuntimeDir: s.Runtime, Rootfs: s.Rootfs, Log: s.Log,
		AcceptMissing: s.AcceptMissing, UIDs: s.Namespace.UIDs, Rootless: s.Namespace.Why,
	})
}
