// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The controllers a run is limited and measured by.
const (
	Memory  = "memory"
	CPU     = "cpu"
	CPUAcct = "cpuacct" // version 1 only: version 2 counts in cpu
	PIDs    = "pids"
)

// Parent is the folder beneath each hierarchy's root that holds all groups of this program.
const Parent = "glovebox"

// Host is what this host offers.
type Host struct {
	// v1 maps a controller to the root of its hierarchy.
	v1 map[string]string
	// v2 is the folder of the unified hierarchy that groups are made in, see delegated, or empty.
	v2 string
	// unified are the controllers that version 2 offers.
	unified []string
	// without are controllers that are not used, see Without.
	without []string
	// mountRoots is which folder of its hierarchy each mount shows.
	mountRoots map[string]string
	// faults says which controllers are mounted and cannot be used.
	faults map[string]error
	// kind is what is mounted, whether it can be used or not.
	kind string
	// foreign says that this process is root of a user namespace and not of the host.
	foreign bool
}

// Without returns the host without these controllers: its groups have no limit and no count of theirs. It is for hosts
// that lack them, where that was accepted.
func (h *Host) Without(controllers ...string) *Host {
	reduced := *h
	reduced.without = controllers
	return &reduced
}

// Only returns the host with one controller.
func (h *Host) Only(controller string) *Host {
	others := slices.DeleteFunc([]string{Memory, CPU, PIDs}, func(name string) bool { return name == controller })
	return h.Without(others...)
}

// lacks reports whether the host is used without a controller.
func (h *Host) lacks(controller string) bool {
	return slices.Contains(h.without, controller) || controller == CPUAcct && slices.Contains(h.without, CPU)
}

// Discover reads which hierarchies are mounted.
func Discover() (*Host, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	host, err := parseMounts(file)
	if err != nil {
		return nil, err
	}
	own, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	defer own.Close()
	host.foreign, host.kind = inUserNamespace(), host.Kind()
	return host, host.settle(own)
}

// parseMounts reads mountinfo: "... root mountpoint options [optional fields] - type source superoptions".
func parseMounts(source io.Reader) (*Host, error) {
	host := &Host{v1: make(map[string]string), mountRoots: make(map[string]string)}
	lines := bufio.NewScanner(source)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, found := strings.Cut(lines.Text(), " - ")
		mount, super := strings.Fields(before), strings.Fields(after)
		if !found || len(mount) < 5 || len(super) < 3 {
			continue
		}
		if kind := super[0]; kind == "cgroup2" || kind == "cgroup" {
			host.mountRoots[mount[4]] = mount[3]
		}
		switch super[0] {
		case "cgroup2":
			if host.v2 == "" {
				host.v2 = mount[4]
			}
		case "cgroup":
			for option := range strings.SplitSeq(super[2], ",") {
				if slices.Contains([]string{Memory, CPU, CPUAcct, PIDs, BlkIO}, option) && host.v1[option] == "" {
					host.v1[option] = mount[4]
				}
			}
		}
	}
	return host, lines.Err()
}

// Missing returns the controllers that neither version offers.
func (h *Host) Missing() []string {
	var missing []string
	for _, controller := range []string{Memory, CPU, PIDs} {
		if h.root(controller) == "" && !h.lacks(controller) {
			missing = append(missing, controller)
		}
	}
	return missing
}

// Kind says what the host has: v1, v2, hybrid or none.
func (h *Host) Kind() string {
	switch {
	case h.kind != "":
		return h.kind
	case h.v2 == "" && len(h.v1) == 0:
		return "none"
	case len(h.v1) == 0:
		return "v2"
	case h.v2 == "":
		return "v1"
	default:
		return "hybrid"
	}
}

// root returns the hierarchy that serves a controller.
func (h *Host) root(controller string) string {
	if h.lacks(controller) {
		return ""
	}
	if slices.Contains(h.unified, controller) {
		return h.v2
	}
	if controller == CPUAcct && slices.Contains(h.unified, CPU) {
		return h.v2
	}
	return h.v1[controller]
}

// roots returns every hierarchy a group has a folder in: those of the controllers. On a host that has version 2 without
// them its folders would cost as much as the others and bring nothing.
func (h *Host) roots() []string {
	var roots []string
	for _, controller := range []string{Memory, CPU, CPUAcct, PIDs} {
		if root := h.root(controller); root != "" && !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots
}

// Create makes the group at path, which is relative to Parent, with the folders above it. What it made before an error
// is removed again.
func (h *Host) Create(path string) (*Group, error) {
	if missing := h.Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("the host offers no cgroup controller for %s", strings.Join(missing, ", "))
	}
	group := &Group{host: h, path: filepath.Join(Parent, path)}
	for _, root := range h.roots() {
		if err := h.makeFolder(root, group.path); err != nil {
			return nil, errors.Join(fmt.Errorf("create cgroup: %w", err), group.Remove())
		}
	}
	return group, nil
}

// makeFolder makes the folders from root down. In version 2 each folder but the last must hand its controllers on.
func (h *Host) makeFolder(root, path string) error {
	dir := root
	for element := range strings.SplitSeq(path, "/") {
		if root == h.v2 {
			if err := h.delegate(dir); err != nil {
				return err
			}
		}
		dir = filepath.Join(dir, element)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

func (h *Host) delegate(dir string) error {
	var controllers []string
	for _, controller := range []string{Memory, CPU, PIDs} {
		if slices.Contains(h.unified, controller) {
			controllers = append(controllers, controller)
		}
	}
	return h.handOn(dir, controllers...)
}

// handOn gives controllers of version 2 to the groups beneath dir.
func (h *Host) handOn(dir string, controllers ...string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var add []string
	for _, controller := range controllers {
		if !slices.Contains(strings.Fields(string(enabled)), controller) {
			add = append(add, "+"+controller)
		}
	}
	if len(add) == 0 {
		return nil
	}
	err = os.WriteFile(file, []byte(strings.Join(add, " ")), 0)
	if errors.Is(err, unix.EBUSY) {
		if err = h.stepAside(dir); err == nil {
			err = os.WriteFile(file, []byte(strings.Join(add, " ")), 0)
		}
	}
	if err != nil {
		return fmt.Errorf("hand on controllers %s: %w", strings.Join(add, " "), err)
	}
	return nil
}

// List returns the names of the groups directly beneath path, in any hierarchy.
func (h *Host) List(path string) ([]string, error) {
	var names []string
	for _, root := range h.roots() {
		entries, err := os.ReadDir(filepath.Join(root, Parent, path))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if entry.IsDir() && !slices.Contains(names, entry.Name()) {
				names = append(names, entry.Name())
			}
		}
	}
	return names, nil
}

// Open returns the group at path without making anything; folders it lacks are skipped when it is removed.
func (h *Host) Open(path string) *Group { return &Group{host: h, path: filepath.Join(Parent, path)} }
