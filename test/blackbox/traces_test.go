// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// footprint is what a server has on the host. Other servers may come and go meanwhile, also under the numbers that this one
// had: a process is known by its start, a namespace by those who were there with it.
type footprint struct {
	folder     string
	owner      string         // the name of its uid range, which its groups and folders have
	processes  map[int]string // pid -> start
	namespaces map[string]bool
	groups     map[string]uint64 // of its sandboxes and zygotes, by path: the inode, which no later one has
	// latest is the start of the youngest of its processes.
	latest uint64
}

// traces looks at a living server.
func traces(t *testing.T, s *server) *footprint {
	t.Helper()
	f := &footprint{folder: s.folder, processes: map[int]string{}, namespaces: map[string]bool{}}
	own := s.command.Process.Pid
	children := map[int][]int{}
	for pid, stat := range stats(t) {
		children[stat.parent] = append(children[stat.parent], pid)
	}
	host := namespacesOf(own)
	for queue := []int{own}; len(queue) > 0; queue = queue[1:] {
		if stat, err := statOf(queue[0]); err == nil {
			f.processes[queue[0]] = stat.start
			started, _ := strconv.ParseUint(stat.start, 10, 64)
			f.latest = max(f.latest, started)
		}
		for _, namespace := range namespacesOf(queue[0]) {
			if !slices.Contains(host, namespace) {
				f.namespaces[namespace] = true
			}
		}
		queue = append(queue, children[queue[0]]...)
	}
	for _, file := range names(t, fmt.Sprintf("/proc/%d/fd", own)) {
		if target, err := os.Readlink(file); err == nil && filepath.Dir(target) == runtimeFolder(t) {
			f.owner = strings.TrimSuffix(filepath.Base(target), ".lock")
		}
	}
	if f.owner == "" {
		t.Fatal("the server holds no uid range")
	}
	f.groups = map[string]uint64{}
	for _, group := range groupsOf(t, f.owner+"/*") {
		var stat unix.Stat_t
		if unix.Stat(group, &stat) == nil {
			f.groups[group] = stat.Ino
		}
	}
	return f
}

type stat struct {
	parent       int
	state, start string
}

func statOf(pid int) (stat, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	const start = 19 // after the name
	at := strings.LastIndex(string(content), ") ")
	fields := strings.Fields(string(content)[at+2:])
	if len(fields) <= start {
		return stat{}, errors.New("a short stat")
	}
	parent, err := strconv.Atoi(fields[1])
	return stat{parent, fields[0], fields[start]}, err
}

func stats(t *testing.T) map[int]stat {
	t.Helper()
	all := map[int]stat{}
	for _, name := range names(t, "/proc") {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil {
			if stat, err := statOf(pid); err == nil {
				all[pid] = stat
			}
		}
	}
	return all
}

func namespacesOf(pid int) (found []string) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/ns/*", pid))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil {
			found = append(found, target)
		}
	}
	return found
}

// groupsOf lists the folders that match beneath the program's own, in every hierarchy of control groups.
func groupsOf(t *testing.T, pattern string) (found []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		_, kind, _ := strings.Cut(line, " - ")
		if !strings.HasPrefix(kind, "cgroup") {
			continue
		}
		matches, err := filepath.Glob(filepath.Join(fields[4], "glovebox", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range matches {
			if stat, err := os.Stat(match); err == nil && stat.IsDir() {
				found = append(found, match)
			}
		}
	}
	return found
}

// alive lists the processes that have not ended.
func (f *footprint) alive(t *testing.T) (left []string) {
	t.Helper()
	for pid, start := range f.processes {
		if stat, err := statOf(pid); err == nil && stat.start == start && stat.state != "Z" {
			left = append(left, fmt.Sprintf("process %d (%s)", pid, stat.state))
		}
	}
	return left
}

func (f *footprint) groupsLeft() (left []string) {
	for group, inode := range f.groups {
		var stat unix.Stat_t
		if unix.Stat(group, &stat) == nil && stat.Ino == inode {
			left = append(left, group)
		}
	}
	return left
}

// namespacesLeft lists those that a process is in, or holds open, that was there with them, or that are mounted.
func (f *footprint) namespacesLeft(t *testing.T) (left []string) {
	t.Helper()
	for pid, stat := range stats(t) {
		if started, err := strconv.ParseUint(stat.start, 10, 64); err != nil || started > f.latest {
			continue // younger: a namespace of that number is another one
		}
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		held := namespacesOf(pid)
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil {
				held = append(held, target)
			}
		}
		for _, namespace := range held {
			if f.namespaces[namespace] {
				left = append(left, fmt.Sprintf("namespace %s of process %d", namespace, pid))
			}
		}
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); strings.Contains(line, " - nsfs ") && f.namespaces[fields[3]] {
			left = append(left, line)
		}
	}
	return left
}

// filesLeft lists the files of sandboxes, runs and uploads that the footprint's server had.
func (f *footprint) filesLeft(t *testing.T) (left []string) {
	t.Helper()
	for _, pattern := range []string{"uploads/*", "runs/*", "executions/*", ".??*"} {
		found, err := filepath.Glob(filepath.Join(f.folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	for group := range f.groups {
		folder := filepath.Join(f.folder, "backends", "native", f.owner, filepath.Base(group))
		if _, err := os.Stat(folder); err == nil {
			left = append(left, folder)
		}
	}
	return left
}

// dataLeft lists what a server that has ended has in its data folder besides what it keeps.
func dataLeft(t *testing.T, folder string) (left []string) {
	t.Helper()
	kept := []string{".", "config.yaml", "serve.lock", "glovebox.db", "glovebox.db.lock", "images", "executions", "blobs", "backends", "backends/native", "uploads"}
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(folder, path)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		if name == "blobs" {
			return fs.SkipDir
		}
		if !slices.Contains(kept, name) {
			left = append(left, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// hostTraces lists mounts and loop devices of this host that have to do with the folder.
func hostTraces(t *testing.T, folder string) (found []string) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, folder) {
			found = append(found, line)
		}
	}
	loops, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, loop := range loops {
		if file, err := os.ReadFile(loop); err == nil && strings.Contains(string(file), folder) {
			found = append(found, loop+" "+unix.ByteSliceToString(file))
		}
	}
	return found
}
