// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/backend/native"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// diskRate prints how many bytes a second the disk gave to a program that reads an image's file past the page cache.
const diskRate = `
import glob, mmap, os, time
def delivered(): return int(open('/proc/self/io').read().split('\nread_bytes: ')[1].split()[0])
buffer, got, spent = mmap.mmap(-1, 256 << 10), 0, 0
for path in glob.glob('/usr/lib/python3/dist-packages/*/*.so') + glob.glob('/usr/lib/x86_64-linux-gnu/*.so*'):
    try: fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError: fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    before, began = delivered(), time.perf_counter()
    while delivered() - before + got < 2 << 20 and os.readv(fd, [buffer]): pass
    if delivered() > before: got, spent = got + delivered() - before, spent + time.perf_counter() - began
    if got >= 2 << 20: break
print(int(got / spent) if got >= 2 << 20 else 'nothing came from a disk')`

func rate(t *testing.T, output string) int {
	t.Helper()
	bytes, err := strconv.Atoi(strings.TrimSpace(output))
	if err != nil {
		t.Skipf("the disk cannot be measured here: %.100q", output)
	}
	return bytes
}

// TestDiskBandwidth: the limit binds a started interpreter, a forked one and a plain process, and nothing of it is left.
func TestDiskBandwidth(t *testing.T) {
	b := newBackend(t)
	limit := int64(sandbox.MinDiskBandwidth)
	l := limits(func(l *sandbox.Limits) { l.DiskBandwidth = &limit })
	kept := map[string]int{}
	for name, class := range map[string]sandbox.Class{"started": class(), "forked": warmClass()} {
		box, err := b.Create(t.Context(), newID(), class)
		if err != nil {
			t.Fatal(err)
		}
		defer box.Destroy(t.Context()) //nolint:errcheck // closed with the backend
		err = box.Lease(t.Context(), sandbox.Lease{Limits: l})
		if unsupported, ok := errors.AsType[*sandbox.UnsupportedError](err); ok {
			t.Skip(unsupported)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := &ran{}
		command := sandbox.Command{Args: []string{"python3", "-c", diskRate}, Wall: l.Wall, Emit: r.take}
		process, err := box.Start(t.Context(), command)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := process.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept[name+", process"] = rate(t, r.stdout.String())
		kept[name] = rate(t, script(t, box, l, diskRate).stdout.String())
		if err := box.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob("/sys/fs/cgroup/*/glovebox/*/" + string(box.Handle().ID))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: groups left: %v %v", name, left, err)
		}
	}
	l.DiskBandwidth = nil
	free := rate(t, script(t, lease(t, b, class(), l), l, diskRate).stdout.String())
	t.Logf("with a limit of %d: %v, without: %d", limit, kept, free)
	for name, bytes := range kept {
		if int64(bytes) > limit*3/2 {
			t.Errorf("%s: %d bytes a second under a limit of %d", name, bytes, limit)
		}
	}
	if int64(free) < 2*limit {
		t.Skipf("this disk gives %d bytes a second without a limit: nothing is shown", free)
	}
}

// TestDiskBandwidthThatCannotBeKept is refused by its name before anything runs; without it the same host serves.
func TestDiskBandwidthThatCannotBeKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	state := filepath.Join(dir, "merged")
	options := "lowerdir=" + dir + "/lower,upperdir=" + dir + "/upper,workdir=" + dir + "/work"
	if err := unix.Mount("overlay", state, "overlay", 0, options); err != nil {
		t.Skipf("no file system without a disk of its own can be had here: mount overlay: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
	b := newBackend(t, func(c *native.Config) { c.StateDir = state })
	box, err := b.Create(t.Context(), newID(), class())
	if err != nil {
		t.Fatal(err)
	}
	limit := int64(50 << 20)
	err = box.Lease(t.Context(), sandbox.Lease{Limits: limits(func(l *sandbox.Limits) { l.DiskBandwidth = &limit })})
	unsupported, ok := errors.AsType[*sandbox.UnsupportedError](err)
	if !ok || !strings.Contains(unsupported.Feature, "disk_bandwidth") || strings.Contains(unsupported.Feature, dir) {
		t.Errorf("got %v: it must name the limit, and no path of the host", err)
	}
	if err := box.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
	l := sandboxtest.DefaultLimits()
	l.Wall = sandboxtest.Patient(10 * time.Second)
	if r := script(t, lease(t, b, class(), l), l, "print(1)"); r.End != sandbox.EndOK {
		t.Errorf("end %s", r.End)
	}
}
