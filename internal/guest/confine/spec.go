// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"golang.org/x/sys/unix"

	"glovebox/internal/guest/layer"
)

// Rlimit is one resource limit, soft and hard alike.
type Rlimit struct {
	Resource int    `json:"resource"`
	Value    uint64 `json:"value"`
}

// PathRule grants Landlock rights beneath a path.
type PathRule struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
}

// Access is a set of rights on files beneath a path.
type Access uint8

// The rights that rules grant.
const (
	AccessRead Access = 1 << iota
	AccessExecute
	AccessWrite
)

// Spec describes the confinement of one process and the program it becomes.
type Spec struct {
	UID     int        `json:"uid"`
	GID     int        `json:"gid"`
	Rlimits []Rlimit   `json:"rlimits"`
	Paths   []PathRule `json:"paths"`
	// Filter is the seccomp program, see CompileFilter.
	Filter []Instruction `json:"filter"`
	// Cgroups says how many descriptors, from FirstCgroupFD on, are the cgroup.procs files to join.
	Cgroups int `json:"cgroups"`
	// Keep is the number of descriptors, from 0 on, that the program inherits.
	Keep int `json:"keep"`
	// Terminal makes descriptor 0 the controlling terminal.
	Terminal bool `json:"terminal,omitempty"`

	// Without are layers to leave out, see package layer.
	Without layer.Set `json:"without,omitempty"`

	Args []string `json:"args"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// The descriptors of a process between its start and Apply.
const (
	// SpecFD is a socket: the Spec is read from it and an error is written to it. It closes when the program starts.
	SpecFD = 4
	// FirstCgroupFD is the first cgroup.procs file.
	FirstCgroupFD = 5
)

// Command is the argument that makes the guest binary confine itself and become another program.
const Command = "confine"

// MaxSpec bounds the bytes of a Spec on SpecFD.
const MaxSpec = 1 << 20

// Limits are the per-process parts of a run's limits.
type Limits struct {
	OpenFiles int64
	Processes int64
	// FileSize bounds each file, in bytes.
	FileSize int64
	// CPUTime is in seconds, rounded up; it is the second wall behind the run's own.
	CPUTime int64
}

// nprocSlack is how far the per-user limit on processes lies above that of the run.
const nprocSlack = 64

// cpuSlack is how many seconds the per-process limit on processor time lies above that of the run.
const cpuSlack = 5

// Rlimits returns the resource limits of a confined process. RLIMIT_AS is deliberately missing: numeric libraries
// reserve address space they never touch, and the memory cgroup counts what is really used.
func Rlimits(l Limits) []Rlimit {
	count := func(n int64) uint64 { return uint64(max(0, n)) }
	return []Rlimit{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NOFILE, count(l.OpenFiles)},
		// Above the run's own limit: the control group must refuse first, since it counts its refusals.
		{unix.RLIMIT_NPROC, count(l.Processes) + nprocSlack},
		{unix.RLIMIT_FSIZE, count(l.FileSize)},
		// Behind the run's own limit, which counts all processes together and says why it ended them.
		{unix.RLIMIT_CPU, count(l.CPUTime) + cpuSlack},
		{unix.RLIMIT_STACK, 64 << 20},
		{unix.RLIMIT_MEMLOCK, 64 << 10},
		{unix.RLIMIT_MSGQUEUE, 0},
		{unix.RLIMIT_NICE, 0},
		{unix.RLIMIT_RTPRIO, 0},
		{unix.RLIMIT_SIGPENDING, 1024},
	}
}
