// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/layer"
)

// Main reads a Spec from SpecFD, applies it and becomes the program. It returns only on failure, after the reason was
// written to SpecFD.
func Main() error {
	// Landlock, seccomp and no_new_privs hold for one thread; the program takes over the thread that executes it.
	runtime.LockOSThread()
	socket := os.NewFile(SpecFD, "spec")
	err := readAndApply(socket)
	_, writeErr := io.WriteString(socket, err.Error())
	return errors.Join(err, writeErr)
}

func readAndApply(source io.Reader) error {
	var spec Spec
	if err := json.NewDecoder(io.LimitReader(source, MaxSpec)).Decode(&spec); err != nil {
		return fmt.Errorf("read confinement: %w", err)
	}
	return Apply(&spec)
}

// Apply confines the calling thread, which must be locked, and executes the program. It returns only on failure, and
// the caller must then exit: it is half confined.
func Apply(spec *Spec) error {
	if len(spec.Args) == 0 {
		return errors.New("confine: no program given")
	}
	steps := []struct {
		name string
		do   func(*Spec) error
	}{
		{"reset signals", func(*Spec) error { return ResetSignals() }},
		{"start session", startSession},
		{"close descriptors", closeDescriptors},
		{"enter folder", func(s *Spec) error { return unix.Chdir(s.Dir) }},
		{"set resource limits", setRlimits},
		{"drop capabilities", dropCapabilities},
		{"change user", changeUser},
		{"set no_new_privs", func(*Spec) error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		// Late: the threads of this runtime are not the program's, and end when it starts.
		{"join cgroups", joinCgroups},
		{"restrict paths", restrictPaths},
		{"filter system calls", filterCalls},
	}
	path, err := lookPath(spec.Args[0], spec.Env)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if err := step.do(spec); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	if err := unix.Exec(path, spec.Args, spec.Env); err != nil {
		return fmt.Errorf("execute %s: %w", path, err)
	}
	return nil
}

func filterCalls(spec *Spec) error {
	if spec.Without.Has(layer.Seccomp) {
		return nil
	}
	return InstallFilter(spec.Filter, 0)
}

func joinCgroups(spec *Spec) error {
	for fd := FirstCgroupFD; fd < FirstCgroupFD+spec.Cgroups; fd++ {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return err
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

// ResetSignals gives every signal its default action and blocks none: our own programs ignore signals, and what they
// start would inherit that.
func ResetSignals() error {
	const lastSignal = 64
	var fallback struct { // struct sigaction of the kernel: handler, flags, restorer, mask
		handler, flags, restorer uintptr
		mask                     uint64
	}
	for signal := 1; signal <= lastSignal; signal++ {
		// SIGKILL and SIGSTOP refuse: they have no disposition.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(signal), uintptr(unsafe.Pointer(&fallback)), 0,
			unsafe.Sizeof(fallback.mask), 0, 0)
	}
	var none uint64
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&none)), 0,
		unsafe.Sizeof(none), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func startSession(spec *Spec) error {
	if _, err := unix.Setsid(); err != nil {
		return err
	}
	if spec.Terminal {
		return unix.IoctlSetInt(0, unix.TIOCSCTTY, 0)
	}
	return nil
}

// closeDescriptors marks everything else to be closed when the program starts; SpecFD must live until then, since it
// carries the error.
func closeDescriptors(spec *Spec) error {
	return unix.CloseRange(uint(spec.Keep), math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
}

func setRlimits(spec *Spec) error {
	for _, limit := range spec.Rlimits {
		value := limit.Value
		// A hard limit of the host below ours stays: raising one needs a privilege we do not want.
		var now unix.Rlimit
		if err := unix.Getrlimit(limit.Resource, &now); err == nil && now.Max < value {
			value = now.Max
		}
		if err := unix.Setrlimit(limit.Resource, &unix.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("limit %d: %w", limit.Resource, err)
		}
	}
	return nil
}

// dropCapabilities empties the bounding and ambient sets; changing to another user empties the rest.
func dropCapabilities(*Spec) error {
	if err := DropBounding(nil); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("ambient set: %w", err)
	}
	return nil
}

// DropBounding removes every capability but those in keep from the calling thread's bounding set.
func DropBounding(keep map[int]bool) error {
	for capability := range 64 {
		if keep[capability] {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // past the last one that this kernel knows
		}
		if err != nil {
			return fmt.Errorf("bounding set, capability %d: %w", capability, err)
		}
	}
	return nil
}

// changeUser uses raw calls: they are for this thread alone, which is the one that executes the program.
func changeUser(spec *Spec) error {
	// A namespace of one uid allows no change of groups.
	oneUID := spec.Without.Has(layer.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 && (!oneUID || errno != unix.EPERM) {
		return fmt.Errorf("groups: %w", errno)
	}
	gid, uid := uintptr(spec.GID), uintptr(spec.UID)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("gid %d: %w", spec.GID, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("uid %d: %w", spec.UID, errno)
	}
	return SetCapabilities(0)
}

// SetCapabilities makes the effective and permitted sets of the calling thread the given bits and the inheritable set
// empty.
func SetCapabilities(bits uint64) error {
	header, data := CapabilityData(bits)
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// CapabilityData returns what capset(2) takes for these bits in the effective and permitted sets and none to inherit.
func CapabilityData(bits uint64) (unix.CapUserHeader, [2]unix.CapUserData) {
	low, high := uint32(bits), uint32(bits>>32) //nolint:gosec // split in two words
	return unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3},
		[2]unix.CapUserData{{Effective: low, Permitted: low}, {Effective: high, Permitted: high}}
}

// InstallFilter installs a seccomp program on the calling thread, or with SECCOMP_FILTER_FLAG_TSYNC on all.
func InstallFilter(filter []Instruction, flags uintptr) error {
	if len(filter) == 0 || len(filter) > unix.BPF_MAXINSNS {
		return fmt.Errorf("a filter of %d instructions, 1 to %d are allowed", len(filter), unix.BPF_MAXINSNS)
	}
	program := unix.SockFprog{
		Len:    uint16(len(filter)), //nolint:gosec // at most 4096
		Filter: (*unix.SockFilter)(unsafe.Pointer(&filter[0])),
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	return nil
}

// lookPath finds a bare name in the PATH of the program's own environment.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, variable := range env {
		list, found := strings.CutPrefix(variable, "PATH=")
		if !found {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("program %q is not in the PATH of the sandbox", name)
}
