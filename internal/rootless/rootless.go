// SPDX-License-Identifier: Apache-2.0

package rootless

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Namespace is where this process runs.
type Namespace struct {
	// UIDs is how many uids the namespace has, from 0 on; 0 means that there is no namespace of ours.
	UIDs int `json:"uids"`
	// Outer is the uid of who started it, on the host.
	Outer int `json:"outer"`
	// Why says why there is none, or why it has one uid alone.
	Why string `json:"why,omitempty"`
}

// command is the first argument of the second process.
const command = "in-user-namespace"

// controlFD is the second process's end of its socket to the first.
const controlFD = 3

// Enter returns where this process runs: at once for who may mount, as root may, and for the second process, without the
// argument that made it one. For anybody else it starts the second process and returns its exit code when that ends; done is then true.
// Where no namespace can be had it says why, and the caller goes on as that user.
func Enter(args []string) (ns Namespace, rest []string, code int, done bool) {
	switch {
	case len(args) > 0 && args[0] == command:
		ns, err := inside()
		if err != nil {
			fmt.Fprintln(os.Stderr, "glovebox: enter a user namespace:", err)
			return ns, args[1:], 1, true
		}
		return ns, args[1:], 0, false
	case mayMount():
		return Namespace{Outer: os.Geteuid(), UIDs: uidsHere()}, args, 0, false
	}
	code, err := start(args)
	if err != nil {
		return Namespace{Outer: os.Geteuid(), Why: err.Error()}, args, 0, false
	}
	return Namespace{}, args, code, true
}

// mayMount reports whether this process has the capability that everything of the native backend begins with.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// uidsHere returns how many uids, from 0 on, a user namespace that others made for this process has, as container engines
// do; 0 on the host itself.
func uidsHere() int {
	content, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return 0
	}
	const whole = 1<<32 - 1
	for line := range strings.Lines(string(content)) {
		var inside, outside, count int
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err == nil && inside == 0 && count < whole {
			return count
		}
	}
	return 0
}

// ready is what the second process answers; an empty Error means that it goes on.
type ready struct {
	Error string `json:"error,omitempty"`
}

// inside waits until the first process has mapped the uids, and becomes root.
func inside() (Namespace, error) {
	control := os.NewFile(controlFD, "control")
	var ns Namespace
	err := json.NewDecoder(io.LimitReader(control, 1<<16)).Decode(&ns)
	if err == nil {
		err = become()
	}
	answer := ready{}
	if err != nil {
		answer.Error = err.Error()
	}
	return ns, errors.Join(err, json.NewEncoder(control).Encode(answer), control.Close())
}

// become makes this process root of the namespace, whose uids are mapped by now.
func become() error {
	// With one uid alone the kernel allows no change of groups.
	if err := syscall.Setgroups(nil); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("give up groups: %w", err)
	}
	if err := syscall.Setresgid(0, 0, 0); err != nil {
		return fmt.Errorf("become group 0: %w", err)
	}
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		return fmt.Errorf("become uid 0: %w", err)
	}
	// Mounts of the host still come in, and ours stay inside.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("part the mounts from the host's: %w", err)
	}
	return nil
}

// start starts the second process and returns its exit code, or an error when it could not go on.
func start(args []string) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	control, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer control.Close()
	again := append([]string{os.Args[0], command}, args...)
	process, err := os.StartProcess("/proc/self/exe", again, &os.ProcAttr{ //nolint:gosec // this program, with its own arguments
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, theirs},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			// Its uid has no name inside until it is mapped, and a program without a name keeps no other capabilities.
			AmbientCaps: allCapabilities(),
		},
	})
	_ = theirs.Close()
	if err != nil {
		return 0, fmt.Errorf("start a process in a user namespace: %w", err)
	}
	stopForwarding := forward(process)
	defer stopForwarding()
	if err := admit(process.Pid, control); err != nil {
		_ = process.Kill()
		_, _ = process.Wait()
		return 0, err
	}
	state, err := process.Wait()
	if err != nil {
		return 0, err
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// admit maps the uids of the second process and waits until it is root.
func admit(pid int, control *os.File) error {
	ns, err := mapIDs(pid)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(control).Encode(ns); err != nil {
		return err
	}
	var answer ready
	if err := json.NewDecoder(bufio.NewReader(io.LimitReader(control, 1<<16))).Decode(&answer); err != nil {
		return fmt.Errorf("the process in the user namespace ended: %w", err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

func allCapabilities() []uintptr {
	all := make([]uintptr, unix.CAP_LAST_CAP+1)
	for i := range all {
		all[i] = uintptr(i)
	}
	return all
}
