// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// settle turns each mounted hierarchy into the folder of it that this process may use: the unit that was delegated to it, the
// root, or the group it was put into when that was handed to it. A controller of which it may use neither is as good as not there; Fault says why.
func (h *Host) settle(own io.Reader) error {
	groups, err := parseOwn(own)
	if err != nil {
		return err
	}
	h.faults = make(map[string]error)
	for controller, mount := range h.v1 {
		dir, err := h.usable(mount, groups[controller])
		if err != nil {
			h.faults[controller] = err
			delete(h.v1, controller)
			continue
		}
		h.v1[controller] = dir
	}
	if h.v2 == "" {
		return nil
	}
	mount := h.v2
	h.v2 = delegated(mount, h.mountRoots[mount], groups[""])
	if unix.Access(h.v2, unix.W_OK) != nil {
		if h.v2, err = h.usable(mount, groups[""]); err != nil {
			h.v2 = mount
		}
	}
	offered, readErr := os.ReadFile(filepath.Join(h.v2, "cgroup.controllers"))
	if readErr != nil {
		return fmt.Errorf("read the controllers of cgroup version 2: %w", readErr)
	}
	h.unified = strings.Fields(string(offered))
	if err != nil {
		for _, controller := range h.unified {
			h.faults[controller] = err
		}
		h.unified = nil
	}
	return nil
}

func (h *Host) usable(mount, own string) (string, error) {
	err := unix.Access(mount, unix.W_OK)
	if err == nil {
		return mount, nil
	}
	relative, beneath := strings.CutPrefix(own, strings.TrimSuffix(h.mountRoots[mount], "/"))
	if !beneath || errors.Is(err, unix.EROFS) {
		return "", &os.PathError{Op: "write to", Path: mount, Err: err}
	}
	dir := filepath.Join(mount, relative)
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return "", &os.PathError{Op: "write to", Path: dir, Err: err}
	}
	return dir, nil
}

// Fault says why a controller that is mounted cannot be used; nil where it can be, or is not mounted.
func (h *Host) Fault(controller string) error { return h.faults[controller] }

// parseOwn reads /proc/self/cgroup, "id:controllers:path"; version 2 has no controllers there.
func parseOwn(source io.Reader) (map[string]string, error) {
	groups := make(map[string]string)
	lines := bufio.NewScanner(source)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			groups[controller] = fields[2]
		}
	}
	return groups, lines.Err()
}

// inUserNamespace reports whether this process is root of less than the host.
func inUserNamespace() bool {
	content, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(content))
	return err == nil && !slices.Equal(fields, []string{"0", "0", "4294967295"})
}

// openAs opens a cgroup.procs file as the one who is to join: version 1 lets nobody but the host's root move a process of
// another uid, and it asks who opened the file.
func openAs(path string, uid int) (*os.File, error) {
	if err := os.Chown(path, uid, -1); err != nil {
		return nil, err
	}
	type opened struct {
		file *os.File
		err  error
	}
	result := make(chan opened, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and its identity with it
		const keep = ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
			result <- opened{err: fmt.Errorf("become uid %d: %w", uid, errno)}
			return
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		result <- opened{file, err}
	}()
	o := <-result
	return o.file, o.err
}
