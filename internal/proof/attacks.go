// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

//go:embed attacks/*.py
var programs embed.FS

const (
	mendCgroup = "control groups must bind: `glovebox doctor` lists the controllers; see /sys/fs/cgroup and the limits of the service"
	mendBox    = "the mounts and namespaces of a box must hold: use a supported kernel and report this host"
	mendNet    = "the network namespace must be empty: use a kernel with network namespaces and report this host"
	mendDisk   = "disk_bandwidth does not bind on this host: do not rely on it, and report this host"
	mendNames  = "every sandbox must have namespaces of its own: use a kernel with all of them and report this host"
	mendPaths  = "path rules must hold: use Linux 5.13 or newer with landlock in its lsm= list"
	mendUser   = "programs must have a uid of their own: `glovebox doctor` says what the layer uid needs"
	mendCalls  = "the system call filter must hold: use a kernel with CONFIG_SECCOMP_FILTER and report this host"
)

// table is the list of attacks.
func table() []attack {
	return []attack{
		{limit: "memory", program: "memory.py", layer: "cgroup_memory", judge: endedBy(sandbox.EndOutOfMemory, sandbox.LimitMemory), mend: mendCgroup},
		{limit: "memory of tmpfs", program: "shm.py", layer: "cgroup_memory", limits: large, judge: endedBy(sandbox.EndOutOfMemory, sandbox.LimitMemory), mend: mendCgroup},
		{limit: "cpu", program: "cpu.py", layer: "cgroup_cpu", limits: quarter, judge: usedAtMost(0.35), mend: mendCgroup},
		{limit: "pids", program: "pids.py", layer: "cgroup_pids", mend: mendCgroup},
		{limit: "disk", program: "disk.py", mend: mendBox},
		{limit: "inodes", program: "inodes.py", mend: mendBox},
		{limit: "descriptors", program: "descriptors.py", mend: mendBox},
		{limit: "output", program: "output.py", judge: cutOutput, mend: "report this: output is counted by the server itself"},
		{limit: "wall", program: "wall.py", limits: second, judge: endedBy(sandbox.EndWallTimeout, sandbox.LimitWall), mend: mendCgroup},
		{limit: "network", program: "network.py", mend: mendNet},
		{limit: "dns", program: "dns.py", mend: mendNet},
		{limit: "metadata address", program: "metadata.py", mend: mendNet},
		{limit: "host files", program: "host_files.py", judge: ownWord, mend: mendBox},
		{limit: "other sandboxes", program: "others.py", mend: mendBox},
		{limit: "namespaces", program: "namespaces.py", judge: ownNamespaces, mend: mendNames},
		{limit: "path rules", program: "paths.py", layer: "landlock", mend: mendPaths},
		{limit: "user", program: "user.py", layer: "uid", mend: mendUser},
		{limit: "escalation", program: "escalation.py", mend: mendBox},
		{limit: "system calls", program: "calls.py", mend: mendCalls},
		{limit: "disk_io", program: "disk_io.py", limits: slowDisk, compare: slowedDown, mend: mendDisk},
		{limit: "leftover processes", program: "leftovers.py", judge: nothingLeft, mend: mendCgroup},
	}
}

func quarter(o *policy.Overrides) { milli := int64(250); o.MilliCPU = &milli }

func second(o *policy.Overrides) { wall := time.Second; o.Wall = &wall }

// large lets tmpfs be larger than memory, so that memory must bind.
func large(o *policy.Overrides) {
	memory, tmp, disk := int64(64<<20), int64(256<<20), int64(256<<20) // a file may be as large as the disk
	o.Memory, o.Tmp, o.Disk = &memory, &tmp, &disk
}

// endedBy wants the run ended by one limit, with its figures.
func endedBy(end sandbox.End, name sandbox.LimitName) func(*engine.Execution) (bool, string) {
	return func(x *engine.Execution) (bool, string) {
		limit := x.Limits[string(name)]
		if x.Status != engine.Status(end) || !limit.Hit {
			return false, fmt.Sprintf("the run ended with %s: %s", x.Status, firstLine(x.Stdout))
		}
		measured := 0.0
		if limit.Measured != nil {
			measured = *limit.Measured
		}
		if name == sandbox.LimitMemory {
			return true, fmt.Sprintf("ended with %s at %s of %s", x.Status, policy.FormatSize(int64(measured)), policy.FormatSize(int64(limit.Value)))
		}
		return true, fmt.Sprintf("ended with %s at %.4g of %.4g", x.Status, measured, limit.Value)
	}
}

// usedAtMost wants busy loops kept to a share of one processor.
func usedAtMost(share float64) func(*engine.Execution) (bool, string) {
	return func(x *engine.Execution) (bool, string) {
		if x.Status != engine.Status(sandbox.EndOK) || x.Usage.Wall <= 0 {
			return false, fmt.Sprintf("the run ended with %s", x.Status)
		}
		// Where nothing counts the processor time only the program can say it; and it knows when its loops began.
		own, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(x.Stdout, "used ")), 64)
		if err != nil {
			return false, ""
		}
		used := max(own, x.Usage.CPU/(x.Usage.Setup+x.Usage.Wall)) // a start takes long where processors are slow
		evidence := fmt.Sprintf("six busy loops allowed 0.25 of a processor used %.2f", used)
		if used < share/2 {
			evidence += ": this host was too busy to give them more"
		}
		return used <= share, evidence
	}
}

func cutOutput(x *engine.Execution) (bool, string) {
	total := x.Output.Stdout
	evidence := fmt.Sprintf("%d bytes printed, %d kept, %d shown", total.Bytes, total.Kept, len(x.Stdout))
	return x.Status == engine.Status(sandbox.EndOK) && x.Truncated && total.Kept < total.Bytes, evidence
}

// sandboxUIDs is the most uids that a sandbox's own user namespace has.
const sandboxUIDs = 3

// ownNamespaces compares the program's namespaces with this process's own.
func ownNamespaces(x *engine.Execution) (bool, string) {
	var shared []string
	kinds, uids, parent := 0, 0, 0
	for line := range strings.Lines(x.Stdout) {
		switch fields := strings.Fields(line); {
		case len(fields) == 3 && fields[0] == "namespace":
			kinds++
			if ours, err := os.Readlink("/proc/self/ns/" + fields[1]); err != nil || ours == fields[2] {
				shared = append(shared, fields[1]+" is the host's")
			}
		case len(fields) == 2 && fields[0] == "uids":
			uids, _ = strconv.Atoi(fields[1])
		case len(fields) == 2 && fields[0] == "parent":
			parent, _ = strconv.Atoi(fields[1])
		}
	}
	switch {
	case kinds == 0:
		return false, ""
	case uids < 1 || uids > sandboxUIDs:
		shared = append(shared, fmt.Sprintf("user has %d uids: it is not of this sandbox alone", uids))
	case parent > 1: // 1 is the sandbox's first process, 0 a parent outside, as a session has that was forked into it
		shared = append(shared, "pid is not of this sandbox alone")
	}
	if len(shared) > 0 {
		return false, strings.Join(shared, "; ")
	}
	return true, fmt.Sprintf("%d kinds of namespaces are the sandbox's own", kinds)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if len(line) > 200 {
		line = line[:200]
	}
	return line
}

// canaryPath is a file of the host that every user could read. host_files.py looks for it.
const canaryPath = "/var/tmp/glovebox-proof-canary"

// plantCanary makes the file and returns what removes it. The folder is everybody's: a link there is never followed, and
// a file that is there already, of another proof at the same time, serves as well.
func plantCanary() (remove func(), err error) {
	file, err := os.OpenFile(canaryPath, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o644)
	switch {
	case errors.Is(err, os.ErrExist):
		return func() {}, nil
	case err != nil:
		return nil, fmt.Errorf("plant a canary for the proof: %w", err)
	}
	return func() { _ = os.Remove(canaryPath) }, file.Close()
}

// leftoverMark is an argument of the processes that leftovers.py starts.
const leftoverMark = "glovebox-proof-leftover"

// nothingLeft looks for what the program started, on the host: the run is over, so none may live.
func nothingLeft(x *engine.Execution) (bool, string) {
	if !strings.Contains(x.Stdout, "started") {
		return false, ""
	}
	left, err := processesWith(leftoverMark)
	switch {
	case errors.Is(err, os.ErrPermission):
		return false, "the processes of this host cannot be listed"
	case err != nil:
		return false, err.Error()
	case left > 0:
		return false, fmt.Sprintf("%d processes outlived their run", left)
	}
	return true, "a daemon that ignores signals and left its session is gone with its run"
}

func processesWith(argument string) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	count := 0
	for _, file := range files {
		command, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		if bytes.Contains(command, []byte(argument)) {
			count++
		}
	}
	return count, nil
}
