// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"glovebox/internal/cgroup"
	"glovebox/internal/guest/layout"
	"glovebox/internal/guest/link"
	"glovebox/internal/sandbox"
)

// environment is what every program starts with, and what the caller gave.
func (x *Box) environment(extra map[string]string) map[string]string {
	env := x.usualEnvironment()
	maps.Copy(env, x.ownEnvironment(extra))
	return env
}

// ownEnvironment is what the caller gave. It may keep an interpreter from starting, or hold it up for longer than any limit
// of time that runs: LD_PRELOAD, or NODE_OPTIONS with a debugger that is waited for.
func (x *Box) ownEnvironment(extra map[string]string) map[string]string {
	env := maps.Clone(x.lease.Env)
	if env == nil {
		env = make(map[string]string)
	}
	maps.Copy(env, extra)
	return env
}

// usualEnvironment has nothing of the daemon's own environment.
func (x *Box) usualEnvironment() map[string]string {
	threads := strconv.FormatInt(max(1, (x.lease.Limits.MilliCPU+999)/1000), 10)
	return map[string]string{
		"HOME": layout.Workspace, "USER": "user", "LOGNAME": "user", "SHELL": "/bin/bash",
		"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TZ": "UTC", "TMPDIR": layout.Tmp, "TERM": "dumb",
		// Numeric libraries start a thread for each processor they see; they see the host's.
		"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads,
		"NUMEXPR_NUM_THREADS": threads, "POLARS_MAX_THREADS": threads, "PYTHON_CPU_COUNT": threads,
		// The engine's own limit of its heap is the sandbox's: it collects harder on the way there, and what goes beyond is
		// ended by the kernel, which counts it, and not by an abort of the engine.
		"NODE_OPTIONS": "--max-old-space-size=" + strconv.FormatInt(max(1, x.lease.Limits.Memory>>20), 10),
		// There is no network: pip must not try for as long as the run may last.
		"PIP_RETRIES": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1",
		// pyarrow's allocator would start a thread of its own, and a process with threads cannot fork safely.
		"JE_ARROW_MALLOC_CONF": "background_thread:false",
	}
}

// ready reports whether something may be started.
func (x *Box) ready() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stopped:
		return sandbox.ErrGone
	case !x.leased:
		return sandbox.ErrLeased
	default:
		return nil
	}
}

func workingDir(dir string) string {
	if path.IsAbs(dir) {
		return dir
	}
	return path.Join(layout.Workspace, dir)
}

// Open starts an interpreter.
func (x *Box) Open(ctx context.Context, spec sandbox.OpenSpec) (sandbox.Session, error) {
	if err := x.ready(); err != nil {
		return nil, err
	}
	args, found := x.backend.config.Language(spec.Language)
	if !found {
		return nil, &sandbox.UnsupportedError{Backend: Name, Feature: fmt.Sprintf("language %q", spec.Language)}
	}
	if warm := x.takeWarm(spec.Language); warm != nil {
		if err := warm.Prepare(ctx, workingDir(spec.Dir), x.environment(spec.Env)); err != nil {
			return nil, err
		}
		return warm, nil
	}
	if err := x.makeRoom(); err != nil {
		return nil, err
	}
	session, err := x.conn.Open(ctx, args, workingDir(spec.Dir), x.usualEnvironment(), x.ownEnvironment(spec.Env))
	if err != nil {
		return nil, err
	}
	return session, nil
}

// makeRoom raises the memory limit of a box that has met it by restartReserve, once. It does not sink again: the kernel
// would end the new interpreter for the files of the old one.
func (x *Box) makeRoom() error {
	usage, err := x.user.Usage()
	if err != nil || usage.OOMKills == 0 {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.user.SetMemory(x.lease.Limits.Memory + restartReserve); err != nil {
		return fmt.Errorf("native: make room for a new interpreter: %w", err)
	}
	return nil
}

// takeWarm returns the waiting interpreter, once.
func (x *Box) takeWarm(language string) *link.Session {
	x.mu.Lock()
	defer x.mu.Unlock()
	warm := x.warm
	if warm == nil || language != sandbox.WarmLanguage {
		return nil
	}
	x.warm = nil
	return warm
}

// Check looks for a sign of life, for who is about to hand the sandbox out.
func (x *Box) Check(ctx context.Context) error {
	x.mu.Lock()
	stopped := x.stopped
	x.mu.Unlock()
	if stopped {
		return sandbox.ErrGone
	}
	return x.conn.Ping(ctx)
}

// Start starts a program.
func (x *Box) Start(ctx context.Context, command sandbox.Command) (sandbox.Process, error) {
	if err := x.ready(); err != nil {
		return nil, err
	}
	command.Env = x.environment(command.Env)
	command.Dir = workingDir(command.Dir)
	process, err := x.conn.Start(ctx, command)
	if err != nil {
		return nil, err
	}
	return process, nil
}

// Files serves the sandbox's files.
func (x *Box) Files() sandbox.Files { return x.conn.Files() }

// Workspace opens the working folder for reading from the host's side.
func (x *Box) Workspace(context.Context) (*os.File, error) {
	x.handles.RLock()
	defer x.handles.RUnlock()
	if x.workspace == nil {
		return nil, sandbox.ErrGone
	}
	// A descriptor of its own: closing it must not take ours, and the offset of a folder is part of a descriptor.
	fd, err := unix.Openat2(int(x.workspace.Fd()), ".", &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("native: open the workspace: %w", err)
	}
	return os.NewFile(uintptr(fd), "workspace"), nil
}

// hostView is what package link may know and do of a box.
type hostView struct{ box *Box }

// Usage reads the counters of everything but the guest itself.
func (v hostView) Usage() (sandbox.Usage, error) {
	usage, err := v.box.user.Usage()
	if err != nil {
		return sandbox.Usage{}, err
	}
	return sandbox.Usage{
		CPU: usage.CPU, MemoryPeak: usage.MemoryPeak, PIDsPeak: usage.PIDsPeak, OOMKills: usage.OOMKills,
		PIDRefusals: usage.PIDRefusals,
	}, nil
}

// Full names the quotas that are used up.
func (v hostView) Full() []sandbox.Hit {
	v.box.handles.RLock()
	defer v.box.handles.RUnlock()
	hits := fullness(v.box.workspace, sandbox.LimitDisk, sandbox.LimitInodes)
	for _, dir := range []*os.File{v.box.tmp, v.box.shm} {
		hits = append(hits, fullness(dir, sandbox.LimitTmp, sandbox.LimitTmp)...)
	}
	return hits
}

// Kill ends PID 1, and by the kernel's rule everything in its pid namespace.
func (v hostView) Kill() { v.box.kill() }

func (x *Box) kill() {
	x.handles.RLock()
	defer x.handles.RUnlock()
	if x.pidfd != nil {
		_ = unix.PidfdSendSignal(int(x.pidfd.Fd()), unix.SIGKILL, nil, 0) // gone already is fine
	}
}

// Usage reads the kernel's counters.
func (x *Box) Usage(context.Context) (sandbox.Usage, error) { return hostView{x}.Usage() }

// Stop kills everything and returns when the kernel says that nothing is left.
func (x *Box) Stop(ctx context.Context) error {
	x.mu.Lock()
	x.stopped = true
	x.mu.Unlock()
	x.ending.Lock()
	defer x.ending.Unlock()
	return x.stopLocked(context.WithoutCancel(ctx))
}

// stopLocked stops the box once; what failed is tried again when it is asked for again.
func (x *Box) stopLocked(ctx context.Context) error {
	if x.stopDone {
		return nil
	}
	err := x.stop(ctx)
	x.stopDone = err == nil
	return err
}

func (x *Box) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTimeout, errors.New("the kernel did not end the processes in time"))
	defer cancel()
	x.kill()
	var err error
	if x.ended != nil {
		select {
		case <-x.ended:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if x.group != nil {
		err = errors.Join(err, emptied(ctx, x.group))
	}
	if x.conn != nil {
		_ = x.conn.Close() // the other end is gone already
	}
	return err
}

// emptied returns when no process is in the group. With PID 1 everything in its pid namespace has ended; what is there
// all the same has joined the group and not yet the namespace, as a fork of a zygote on its way.
func emptied(ctx context.Context, group *cgroup.Group) error {
	if empty, err := group.Empty(); empty || err != nil {
		return err
	}
	if err := group.Kill(); err != nil {
		return err
	}
	return group.WaitEmpty(ctx)
}

// endGroup ends whatever is in a group and removes it.
func endGroup(group *cgroup.Group) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), endTimeout, errors.New("the kernel did not end the processes in time"))
	defer cancel()
	if err := group.Kill(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := group.WaitEmpty(ctx); err != nil {
		return err
	}
	return group.Remove()
}

// Destroy removes everything of the box from the host. What failed is tried again when it is asked for again.
func (x *Box) Destroy(ctx context.Context) error {
	x.mu.Lock()
	x.stopped = true
	x.mu.Unlock()
	x.ending.Lock()
	defer x.ending.Unlock()
	if x.destroyDone {
		return nil
	}
	err := x.destroyLocked(context.WithoutCancel(ctx))
	x.destroyDone = err == nil
	return err
}

func (x *Box) closeHandles() {
	x.handles.Lock()
	defer x.handles.Unlock()
	for _, file := range []**os.File{&x.workspace, &x.tmp, &x.shm, &x.pidfd, &x.lane} {
		_ = (*file).Close() // nil is an error and no harm
		*file = nil
	}
}

func (x *Box) destroyLocked(ctx context.Context) error {
	if err := x.stopLocked(ctx); err != nil {
		return err // while something lives, what it holds must stay: its uids, its image, the means to end it
	}
	x.closeHandles()
	var errs []error
	if x.group != nil {
		errs = append(errs, endGroup(x.group))
	}
	errs = append(errs, os.RemoveAll(x.dir))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	x.releaseImage()
	x.backend.mu.Lock()
	defer x.backend.mu.Unlock()
	if x.backend.boxes[x.id] == x {
		delete(x.backend.boxes, x.id)
	}
	// The uids of a box that cannot be ended are never given back: what may still live under them must not meet a new box.
	if x.slot != 0 {
		x.backend.slots.give(x.slot)
	}
	return nil
}
