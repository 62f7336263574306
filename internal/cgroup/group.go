// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is one control group: a folder in each hierarchy.
type Group struct {
	host *Host
	path string
}

// Limits of a group. Zero is refused, not unlimited.
type Limits struct {
	Memory   int64 // bytes, swap included
	MilliCPU int64
	PIDs     int64
}

// period of the processor quota in microseconds, the kernel's default.
const period = 100_000

// Set writes the limits.
func (g *Group) Set(l Limits) error {
	if l.Memory <= 0 || l.MilliCPU <= 0 || l.PIDs <= 0 {
		return fmt.Errorf("cgroup limits %+v: every one must be positive", l)
	}
	return errors.Join(g.SetMemory(l.Memory), g.setCPU(l.MilliCPU), g.setPIDs(l.PIDs))
}

func (g *Group) setPIDs(limit int64) error {
	if g.host.lacks(PIDs) {
		return nil
	}
	return g.set(PIDs, "pids.max", strconv.FormatInt(limit, 10))
}

// SetMemory limits memory and swap together, in bytes. Nothing may use more when the limit sinks.
func (g *Group) SetMemory(limit int64) error {
	if g.host.lacks(Memory) {
		return nil
	}
	value := strconv.FormatInt(limit, 10)
	if g.unified(Memory) {
		return errors.Join(g.set(Memory, "memory.max", value), g.setIfThere(Memory, "memory.swap.max", "0"))
	}
	// Memory and swap together may not be lower than memory alone, at any moment: when the limit sinks memory comes
	// first, and when it rises it fails first and is written again.
	err := g.set(Memory, "memory.limit_in_bytes", value)
	if swapErr := g.setIfThere(Memory, "memory.memsw.limit_in_bytes", value); swapErr != nil {
		return swapErr
	}
	if err != nil {
		if err := g.set(Memory, "memory.limit_in_bytes", value); err != nil {
			return err
		}
	}
	return g.setIfThere(Memory, "memory.kmem.tcp.limit_in_bytes", strconv.FormatInt(min(limit, socketMemory), 10))
}

// socketMemory bounds the buffers of network sockets in version 1, which counts them apart, and only in groups that have
// a limit for them. Version 2 counts them as memory.
const socketMemory = 32 << 20

func (g *Group) setCPU(milli int64) error {
	if g.host.lacks(CPU) {
		return nil
	}
	quota := strconv.FormatInt(milli*period/1000, 10)
	if g.unified(CPU) {
		return g.set(CPU, "cpu.max", quota+" "+strconv.Itoa(period))
	}
	return errors.Join(
		g.set(CPU, "cpu.cfs_period_us", strconv.Itoa(period)),
		g.set(CPU, "cpu.cfs_quota_us", quota),
	)
}

// The weights of groups that compete for processors: what users wait for, and what is done ahead for them.
const (
	WeightNormal = 100
	WeightLow    = 10
)

// SetWeight sets the group's share of contended processors relative to its siblings, 1 to 1000; the usual is
// WeightNormal.
func (g *Group) SetWeight(weight int64) error {
	if weight < 1 || weight > 1000 {
		return fmt.Errorf("cgroup weight %d: 1 to 1000 are allowed", weight)
	}
	if g.host.lacks(CPU) {
		return nil
	}
	if g.unified(CPU) {
		return g.set(CPU, "cpu.weight", strconv.FormatInt(weight, 10))
	}
	return g.set(CPU, "cpu.shares", strconv.FormatInt(max(2, weight*1024/WeightNormal), 10))
}

// Procs opens the group's cgroup.procs in every hierarchy. Whoever writes "0" to all of them joins, which a process of
// this uid may. The caller closes them.
func (g *Group) Procs(uid int) ([]*os.File, error) {
	var files []*os.File
	for _, root := range g.host.roots() {
		path := filepath.Join(root, g.path, "cgroup.procs")
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if g.host.foreign && root != g.host.v2 {
			_ = file.Close() // nil is an error and no harm
			file, err = openAs(path, uid)
		}
		if err != nil {
			for _, opened := range files {
				_ = opened.Close()
			}
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// Usage is what the kernel counted for the group since it was made. What a controller that is not there would count is
// zero.
type Usage struct {
	CPU         time.Duration
	MemoryPeak  int64
	PIDsPeak    int64 // zero where the kernel does not keep it
	OOMKills    int64
	PIDRefusals int64
}

// CPU reads the processor time that the group and the groups beneath it used, also those that are gone.
func (g *Group) CPU() (time.Duration, error) {
	if g.host.lacks(CPU) {
		return 0, nil
	}
	if g.unified(CPU) {
		micro, err := g.field(CPU, "cpu.stat", "usage_usec")
		return time.Duration(micro) * time.Microsecond, err
	}
	nano, err := g.number(CPUAcct, "cpuacct.usage")
	return time.Duration(nano), err
}

// Usage reads the counters.
func (g *Group) Usage() (Usage, error) {
	var u Usage
	var errs [4]error
	u.CPU, errs[0] = g.CPU()
	switch {
	case g.host.lacks(Memory):
	case g.unified(Memory):
		u.MemoryPeak, errs[1] = g.number(Memory, "memory.peak")
		if errors.Is(errs[1], os.ErrNotExist) { // before Linux 5.19
			u.MemoryPeak, errs[1] = g.number(Memory, "memory.current")
		}
		u.OOMKills, errs[2] = g.field(Memory, "memory.events", "oom_kill")
	default:
		u.MemoryPeak, errs[1] = g.number(Memory, "memory.max_usage_in_bytes")
		u.OOMKills, errs[2] = g.field(Memory, "memory.oom_control", "oom_kill")
	}
	if g.host.lacks(PIDs) {
		return u, errors.Join(errs[:]...)
	}
	u.PIDRefusals, errs[3] = g.field(PIDs, "pids.events", "max")
	u.PIDsPeak, _ = g.number(PIDs, "pids.peak") // since Linux 6.1
	return u, errors.Join(errs[:]...)
}

// Empty reports whether no process is in the group or beneath it.
func (g *Group) Empty() (bool, error) {
	pids, err := g.pids()
	return len(pids) == 0, err
}

// pids lists the processes of the group and the groups beneath it, as the hierarchy that counts them has them, or another
// one where none does. Without any hierarchy it knows of none.
func (g *Group) pids() ([]int, error) {
	root := g.host.root(PIDs)
	if roots := g.host.roots(); root == "" && len(roots) > 0 {
		root = roots[0]
	}
	if root == "" {
		return nil, nil
	}
	var pids []int
	err := filepath.WalkDir(filepath.Join(root, g.path), func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil || !entry.IsDir() {
			return err
		}
		found, err := readPIDs(filepath.Join(path, "cgroup.procs"))
		pids = append(pids, found...)
		return err
	})
	return pids, err
}

func readPIDs(file string) ([]int, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(content)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Kill ends every process in the group and beneath it: with one write where version 2 can, otherwise one by one. It
// does not wait.
func (g *Group) Kill() error {
	if g.unified(PIDs) && !g.host.lacks(PIDs) {
		if os.WriteFile(filepath.Join(g.host.v2, g.path, "cgroup.kill"), []byte("1"), 0) == nil {
			return nil
		} // before Linux 5.14 there is no such file
	}
	pids, err := g.pids()
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGKILL) // gone already is fine
	}
	return err
}

// emptyPoll is the pause between two looks at a group that should become empty. The kernel tells of it by an event in
// version 2 only.
const emptyPoll = 2 * time.Millisecond

// WaitEmpty waits until no process is left.
func (g *Group) WaitEmpty(ctx context.Context) error {
	for {
		empty, err := g.Empty()
		if empty || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cgroup %s still has processes: %w", g.path, context.Cause(ctx))
		case <-time.After(emptyPoll):
		}
	}
}

// Remove removes the group and the groups beneath it. It must be empty.
func (g *Group) Remove() error {
	var errs []error
	roots := g.host.roots()
	if root := g.host.v1[BlkIO]; root != "" { // see SetDisk
		roots = append(roots, root)
	}
	for _, root := range roots {
		errs = append(errs, removeTree(filepath.Join(root, g.path)))
	}
	return errors.Join(errs...)
}

// removeAttempts bounds the waiting for a group that the kernel still counts as busy just after its last process.
const removeAttempts = 500

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	for range removeAttempts {
		err = unix.Rmdir(dir)
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(emptyPoll)
	}
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "rmdir", Path: dir, Err: err}
}

func (g *Group) unified(controller string) bool { return g.host.root(controller) == g.host.v2 }

func (g *Group) file(controller, name string) string {
	return filepath.Join(g.host.root(controller), g.path, name)
}

func (g *Group) set(controller, name, value string) error {
	return os.WriteFile(g.file(controller, name), []byte(value), 0)
}

func (g *Group) setIfThere(controller, name, value string) error {
	err := g.set(controller, name, value)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func (g *Group) number(controller, name string) (int64, error) {
	content, err := os.ReadFile(g.file(controller, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(content)), 10, 64)
}

// field reads one number of a file of lines "name number".
func (g *Group) field(controller, file, name string) (int64, error) {
	content, err := os.ReadFile(g.file(controller, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), " "); found && key == name {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no field %s", g.file(controller, file), name)
}
