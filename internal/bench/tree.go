// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// treeUsage is what a process used, with its living descendants and all that they waited for.
type treeUsage struct {
	cpu    time.Duration
	faults int64
}

// process is a line of /proc.
type process struct {
	pid, parent int
	treeUsage
}

// usageOf sums up a process and its living descendants.
func usageOf(root int) (treeUsage, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return treeUsage{}, err
	}
	all := make(map[int]process, len(names))
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			continue // it ended meanwhile
		}
		p, err := parseProcess(string(content))
		if err != nil {
			return treeUsage{}, fmt.Errorf("%s: %w", name, err)
		}
		all[p.pid] = p
	}
	var sum treeUsage
	for _, p := range all {
		if descends(all, p, root) {
			sum.cpu += p.cpu
			sum.faults += p.faults
		}
	}
	return sum, nil
}

// descends reports whether p is root or beneath it. The bound is for a table that changed while it was read.
func descends(all map[int]process, p process, root int) bool {
	for range len(all) + 1 {
		if p.pid == root {
			return true
		}
		parent, found := all[p.parent]
		if !found {
			return false
		}
		p = parent
	}
	return false
}

// parseProcess reads a line of /proc/PID/stat; see proc_pid_stat(5). The name, in brackets, may hold anything.
func parseProcess(line string) (process, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return process{}, fmt.Errorf("%.80q is not a process", line)
	}
	fields := strings.Fields(line[end+1:])
	// Numbered from the state, which is the third field of the manual page.
	const parent, minor, childMinor, major, childMajor, first, last = 1, 7, 8, 9, 10, 11, 14
	if len(fields) <= last {
		return process{}, fmt.Errorf("%.80q is too short", line)
	}
	number := func(i int) int64 {
		value, _ := strconv.ParseInt(fields[i], 10, 64) // the kernel writes numbers
		return value
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return process{}, err
	}
	p := process{pid: pid, parent: int(number(parent))}
	for i := first; i <= last; i++ { // user and system time, its own and that of children it waited for
		p.cpu += time.Duration(number(i)) * tick
	}
	p.faults = number(minor) + number(childMinor) + number(major) + number(childMajor)
	return p, nil
}
