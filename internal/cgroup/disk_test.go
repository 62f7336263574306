// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"testing"

	"glovebox/internal/cgroup"
)

// TestFoldersWithoutADisk: memory needs no limit; what is read through a file system without a disk of its own would be
// missed by one, so that it is an error.
func TestFoldersWithoutADisk(t *testing.T) {
	t.Parallel()
	if disk, err := cgroup.DiskOf("/dev/shm"); err != nil || disk != "" {
		t.Errorf("/dev/shm: %q, %v", disk, err)
	}
	for _, dir := range []string{"/proc", "/sys", "/no/such/folder"} {
		if disk, err := cgroup.DiskOf(dir); err == nil {
			t.Errorf("%s is on disk %q", dir, disk)
		}
	}
}

// TestZeroBandwidthIsRefused: a forgotten value never means unlimited.
func TestZeroBandwidthIsRefused(t *testing.T) {
	t.Parallel()
	host, err := cgroup.Discover()
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{0, -1} {
		if host.Open("nothing").SetDisk([]string{"254:0"}, limit) == nil {
			t.Errorf("%d was taken", limit)
		}
	}
}
