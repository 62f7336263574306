// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"os"
	"slices"

	"glovebox/internal/cgroup"
	"glovebox/internal/sandbox"
)

// limitDisk bounds what a group reads from, and writes to, the disks that the folders are on.
func limitDisk(group *cgroup.Group, limit int64, dirs ...string) error {
	var disks []string
	for _, dir := range dirs {
		disk, err := cgroup.DiskOf(dir)
		if err != nil {
			return err
		}
		if disk != "" && !slices.Contains(disks, disk) {
			disks = append(disks, disk)
		}
	}
	return group.SetDisk(disks, limit)
}

// refuseDisk says by name what cannot be kept. The host's paths go to the log alone.
func (b *Backend) refuseDisk(ctx context.Context, err error) error {
	b.config.Log.WarnContext(ctx, "the limit disk_bandwidth cannot be kept", "error", err)
	reason := err.Error()
	if path, ok := errors.AsType[*os.PathError](err); ok {
		reason = path.Err.Error()
	}
	return &sandbox.UnsupportedError{Backend: Name, Feature: "the limit disk_bandwidth on this host (" + reason + ")"}
}
