// SPDX-License-Identifier: Apache-2.0

//go:build glovebox_weaken

package box

import (
	"os"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/layer"
)

// showHost leaves folders of the host in a box that is to have no mounts of its own, or that cannot have its own /proc
// since its processes are not its own.
func showHost(spec Spec) error {
	var shown []string
	if spec.Without.Has(layer.Mounts) {
		shown = []string{"/var", "/sys"}
	}
	if spec.Without.Has(layer.PIDs) {
		shown = append(shown, "/proc")
	}
	for _, path := range shown {
		if err := unix.Mount(path, "."+path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return &os.PathError{Op: "show", Path: path, Err: err}
		}
	}
	return nil
}
