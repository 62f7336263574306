// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
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

// probeDisk tries the limit on the disk of the uploads. No sandbox needs it unless it was asked for.
func (b *Backend) probeDisk() sandbox.Layer {
	l := layerOf("disk_io", b.tryDisk(), "a group was limited in its disk bandwidth",
		"nothing to do unless disk_bandwidth is wanted: it needs the cgroup controller io, or blkio, and the data folder on a "+
			"disk of its own (ext4, xfs)")
	l.Required, l.Advice = false, true
	return l
}

func (b *Backend) tryDisk() error {
	if err := os.MkdirAll(b.config.StateDir, 0o700); err != nil {
		return err
	}
	group, err := b.cgroups.Create(fmt.Sprintf("probedisk%d", os.Getpid()))
	if err != nil {
		return err
	}
	return errors.Join(limitDisk(group, sandbox.MinDiskBandwidth, b.config.StateDir), group.Remove())
}
