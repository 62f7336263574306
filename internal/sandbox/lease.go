// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// ID names a sandbox: lower-case letters and digits only, made by the engine, at most MaxID characters. Its first
// characters are left for the incarnation of the node that holds the sandbox.
type ID string

// MaxID is the greatest length of an ID.
const MaxID = 40

// Valid reports whether id has the form that every part of the system may rely on (paths, cgroups, URLs).
func (id ID) Valid() bool {
	if id == "" || len(id) > MaxID {
		return false
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Handle is what is needed to find a sandbox again.
type Handle struct {
	Backend string `json:"backend"`
	ID      ID     `json:"id"`
	// Owner is the backend's own name for the daemon that made it, so that a later one finds what a dead one left.
	Owner string `json:"owner,omitempty"`
}

// Profile is the set of mounts and hard limits a sandbox is built with.
type Profile string

// The profiles. ProfileTight differs from the first by a /tmp on which nothing can be executed, ProfileStrict from that by
// accounts that nobody can read: /etc/passwd and /etc/group.
const (
	ProfileStandard Profile = "standard"
	ProfileTight    Profile = "tight"
	ProfileStrict   Profile = "strict"
)

// Profiles returns all profiles, from the loosest to the tightest.
func Profiles() []Profile { return []Profile{ProfileStandard, ProfileTight, ProfileStrict} }

// Network says what a sandbox can reach.
type Network string

// NetworkNone is an empty network namespace: loopback only.
const NetworkNone Network = "none"

// Warmth says what a sandbox of a class holds before it is handed out.
type Warmth string

// The warmths. A warm sandbox holds an interpreter that has imported the data stack; it becomes the first session of
// that language. WarmChart has drawn a chart too, which costs memory and saves the first chart's time.
const (
	WarmNone  Warmth = ""
	WarmPlain Warmth = "plain"
	WarmChart Warmth = "chart"
)

// WarmLanguage is the language of the interpreter in a warm sandbox.
const WarmLanguage = "python"

// Class is what is fixed when a sandbox is built; it is the pool's key. Filters never loosen afterwards.
type Class struct {
	// Image is the name or digest of the root file system.
	Image string
	// Profile is the mount profile.
	Profile Profile
	// Network is what it can reach.
	Network Network
	// Warm is what it holds already. A backend without warm sandboxes refuses all but WarmNone.
	Warm Warmth
}

// Lease is what may still be set when a ready sandbox is handed out.
type Lease struct {
	Limits Limits
	// Env is added to the environment of everything that is started.
	Env map[string]string
	// Files are shown read-only at /data and visible in the working folder.
	Files []InputFile
}

// InputFile is an upload.
type InputFile struct {
	// Name is one path element, as the user knows the file. See ValidFileName.
	Name string
	// Open yields the content; it is read once.
	Open func() (io.ReadCloser, error)
}

// Limits bound a run as a whole, all its processes together. Every field but one is required: zero is refused, never
// unlimited. Sizes are bytes.
type Limits struct {
	// Wall is the longest time one execution may take by our clock.
	Wall time.Duration
	// CPUTime is the most processor time all processes may use together.
	CPUTime time.Duration
	// Memory counts anonymous memory, page cache, tmpfs, pipes and kernel memory of all processes.
	Memory int64
	// MilliCPU is the share of processors in thousandths: 1000 is one processor.
	MilliCPU int64
	// Processes counts threads too, as the kernel does.
	Processes int64
	// OpenFiles is per process.
	OpenFiles int64
	// Disk and Inodes bound the working folder; Tmp bounds /tmp and, once more, /dev/shm.
	Disk   int64
	Inodes int64
	Tmp    int64
	// DiskBandwidth bounds the bytes a second that are read from disks, and apart from that those that are written. Nil is
	// no such limit: it is the one that not every host can keep, so it is only there when it was asked for.
	DiskBandwidth *int64
	// Output is the most that is kept of each stream; what a program prints beyond it is counted and dropped.
	Output int64
}

// The smallest limits with which an interpreter still starts.
const (
	MinWall      = 10 * time.Millisecond
	MinMemory    = 32 << 20
	MinMilliCPU  = 10
	MinProcesses = 4
	MinOpenFiles = 16
	MinDisk      = 64 << 10
	MinInodes    = 16
	MinOutput    = 1 << 10
	// MinDiskBandwidth: others wait while a slow sandbox reads a page of an image that they share.
	MinDiskBandwidth = 1 << 20
)

// Validate lists every fault at once.
func (l Limits) Validate() error {
	var faults []error
	atLeast := func(name string, value, least int64) {
		if value < least {
			faults = append(faults, fmt.Errorf("limit %s is %d: it must be at least %d", name, value, least))
		}
	}
	atLeast("wall (ns)", int64(l.Wall), int64(MinWall))
	atLeast("cpu_time (ns)", int64(l.CPUTime), int64(MinWall))
	atLeast("memory", l.Memory, MinMemory)
	atLeast("milli_cpu", l.MilliCPU, MinMilliCPU)
	atLeast("processes", l.Processes, MinProcesses)
	atLeast("open_files", l.OpenFiles, MinOpenFiles)
	atLeast("disk", l.Disk, MinDisk)
	atLeast("inodes", l.Inodes, MinInodes)
	atLeast("tmp", l.Tmp, MinDisk)
	atLeast("output", l.Output, MinOutput)
	if l.DiskBandwidth != nil {
		atLeast("disk_bandwidth", *l.DiskBandwidth, MinDiskBandwidth)
	}
	return errors.Join(faults...)
}

// OpenSpec asks for a live interpreter.
type OpenSpec struct {
	// Language is a row of the interpreter table: python.
	Language string
	// Dir is the working directory; empty is the sandbox's working folder.
	Dir string
	// Env is added to the lease's.
	Env map[string]string
}

// Code is one cell.
type Code struct {
	// Source is UTF-8 text.
	Source string
	// Name stands in tracebacks for the file, as script.py.
	Name string
	// Wall bounds this cell; zero is refused.
	Wall time.Duration
	// Last says that the session ends with this cell: the interpreter then waits for its threads, runs its exit
	// handlers and leaves with the program's exit code.
	Last bool
	// Inputs become variables before the cell runs. Values are JSON texts.
	Inputs map[string][]byte
	// Return names variables whose values come back as EventValue.
	Return []string
}

// Command is a plain process.
type Command struct {
	Args []string
	Dir  string
	Env  map[string]string
	// Wall bounds the process; zero is refused.
	Wall time.Duration
	// Terminal gives the process a terminal of this size; both streams then arrive as stdout.
	Terminal *TerminalSize
	// Stdin keeps standard input open for Write; otherwise it is at its end from the start.
	Stdin bool
	Emit  Emit
}

// TerminalSize is in characters.
type TerminalSize struct{ Columns, Rows uint16 }
