// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Aside is the group that this process moves itself into where the one it was started in is to hold groups: in version 2
// a group other than the host's root has either processes or groups with controllers.
const Aside = Parent + "-daemon"

// delegated returns the folder of version 2 that this process was given to make groups in: the unit that systemd delegated
// to it, so that the unit's limits and end hold for all sandboxes too, or else the root of what is mounted. mountRoot is
// the group that is mounted at mountPoint, own the one that this process is in.
func delegated(mountPoint, mountRoot, own string) string {
	below, err := filepath.Rel(mountRoot, own)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") {
		return mountPoint
	}
	for ; below != "." && below != "/"; below = filepath.Dir(below) {
		if dir := filepath.Join(mountPoint, below); isDelegated(dir) {
			return dir
		}
	}
	return mountPoint
}

// isDelegated reads the mark that systemd sets on the group of a unit with Delegate=.
func isDelegated(dir string) bool {
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		var value [8]byte
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}

// stepAside moves this process, and the one that started it in a user namespace, out of dir, which the kernel called busy,
// into a leaf of it.
func (h *Host) stepAside(dir string) error {
	inside, err := readPIDs(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	leaf := filepath.Join(dir, Aside)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for _, pid := range inside {
		if pid != os.Getpid() && (!h.foreign || pid != os.Getppid()) {
			return fmt.Errorf("process %d is in %s, which is to hold groups: move it into a group beneath it", pid, dir)
		}
		if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return err
		}
	}
	return nil
}
