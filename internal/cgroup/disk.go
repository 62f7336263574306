// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The controller of disks: version 1 has another name for it.
const (
	IO    = "io"
	BlkIO = "blkio"
)

// DiskOf returns the number, as 254:0, of the whole disk that a folder is on, and nothing for a folder in memory. A file
// system that has no disk of its own (overlay, btrfs, network) is an error: a limit would miss what is read through it.
func DiskOf(dir string) (string, error) {
	var system unix.Statfs_t
	if err := unix.Statfs(dir, &system); err != nil {
		return "", &os.PathError{Op: "find the file system of", Path: dir, Err: err}
	}
	if system.Type == unix.TMPFS_MAGIC || system.Type == unix.RAMFS_MAGIC {
		return "", nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(dir, &stat); err != nil {
		return "", &os.PathError{Op: "find the disk of", Path: dir, Err: err}
	}
	number := fmt.Sprintf("%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	device, err := filepath.EvalSymlinks("/sys/dev/block/" + number)
	if err != nil {
		return "", fmt.Errorf("device %s (file system %#x) is no disk of its own", number, system.Type)
	}
	if _, err := os.Stat(filepath.Join(device, "partition")); errors.Is(err, os.ErrNotExist) {
		return number, nil
	}
	whole, err := os.ReadFile(filepath.Join(filepath.Dir(device), "dev"))
	return strings.TrimSpace(string(whole)), err
}

// SetDisk limits, in bytes a second, what the group and the groups beneath it read from each disk, and what they write to
// it. It holds for the processes that are in the group and for their children.
func (g *Group) SetDisk(disks []string, limit int64) error {
	if limit <= 0 {
		return fmt.Errorf("disk bandwidth %d: it must be positive", limit)
	}
	bytes := strconv.FormatInt(limit, 10)
	switch {
	case slices.Contains(g.host.unified, IO):
		return g.setUnifiedDisk(disks, bytes)
	case g.host.v1[BlkIO] != "" && g.host.root(PIDs) == "":
		return errors.New("the processes to limit cannot be found without the controller pids")
	case g.host.v1[BlkIO] != "":
		return g.setOldDisk(disks, bytes)
	}
	return errors.New("no mounted hierarchy offers the controller io or blkio")
}

func (g *Group) setUnifiedDisk(disks []string, bytes string) error {
	// The controller is handed on only where such a limit was asked for: it costs every group beneath.
	dir := g.host.v2
	for element := range strings.SplitSeq(g.path, "/") {
		if err := g.host.handOn(dir, IO); err != nil {
			return err
		}
		dir = filepath.Join(dir, element)
	}
	for _, disk := range disks {
		if err := g.set(IO, "io.max", disk+" rbps="+bytes+" wbps="+bytes); err != nil {
			return err
		}
	}
	return nil
}

// setOldDisk makes a group of version 1 beside the others and moves in what is in them: only groups with such a limit
// have one, since joining another hierarchy costs every process that starts.
func (g *Group) setOldDisk(disks []string, bytes string) error {
	dir := filepath.Join(g.host.v1[BlkIO], g.path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, disk := range disks {
		for _, file := range []string{"blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(disk+" "+bytes), 0); err != nil {
				return err
			}
		}
	}
	return g.moveAll(filepath.Join(dir, "cgroup.procs"))
}

// moveRounds bounds moveAll. No user code runs yet when a limit is set, so that one or two are enough.
const moveRounds = 100

// moveAll moves the group's processes until none is left to be moved: one that is not there yet may start another.
func (g *Group) moveAll(procs string) error {
	for range moveRounds {
		pids, err := g.pids()
		if err != nil {
			return err
		}
		there, err := readPIDs(procs)
		if err != nil {
			return err
		}
		left := slices.DeleteFunc(pids, func(pid int) bool { return slices.Contains(there, pid) })
		if len(left) == 0 {
			return nil
		}
		for _, pid := range left {
			err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0)
			if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return err
			}
		}
	}
	return fmt.Errorf("cgroup %s starts processes faster than they can be moved", g.path)
}
