// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/backend/native"
	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/guest/layer"
	"glovebox/internal/image/imagetest"
	"glovebox/internal/proof"
	"glovebox/internal/sandbox"
)

// cgroups stands for all control groups of a sandbox, see native.Weaken.
const cgroups = "cgroup"

// removals says of each layer what shows when it alone is gone. Every other attack must still be held: that is what the
// other layers are for. Probe is more that they must still hold, as a program that prints "through: ..." when they do not.
func removals() []struct {
	layer  string
	broken []string
	probe  string
} {
	return []struct {
		layer  string
		broken []string
		probe  string
	}{
		{layer: layer.Seccomp, broken: []string{"system calls"}, probe: privileged},
		{layer: layer.Landlock, broken: []string{"path rules"}, probe: privileged + hostWrites},
		{layer: cgroups, broken: []string{"memory", "memory of tmpfs", "cpu", "pids"}, probe: privileged + forkBomb},
		{layer: layer.Users, broken: []string{"namespaces"}, probe: privileged + hostWrites},
		{layer: layer.PIDs, broken: []string{"namespaces", "host files"}, probe: privileged + signals},
		{layer: layer.Mounts, broken: []string{"host files"}, probe: privileged + hostWrites},
		{layer: layer.Network, broken: []string{"namespaces", "network", "metadata address"}, probe: privileged + rawSockets},
		{layer: layer.IPC, broken: []string{"namespaces"}, probe: privileged + sharedMemory()},
		{layer: layer.UTS, broken: []string{"namespaces"}, probe: privileged + hostName},
		{layer: layer.Cgroups, broken: []string{"namespaces"}, probe: privileged + hostWrites},
		{layer: layer.UID, broken: []string{"user"}, probe: privileged + hostWrites + rootFiles},
	}
}

// The probes share this beginning: what needs a privilege is refused whatever layer is gone.
const (
	privileged = `
import ctypes, errno, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)

def attempt(name, do):
    try:
        result = do()
    except (OSError, MemoryError):
        return
    if result is None or result >= 0:
        print("through:", name)

attempt("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
attempt("namespace of mounts", lambda: libc.unshare(0x00020000))
attempt("namespace of users", lambda: libc.unshare(0x10000000))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("device", lambda: os.mknod("/tmp/device", 0o020600, os.makedev(1, 1)))
attempt("clock", lambda: libc.clock_settime(0, ctypes.create_string_buffer(16)))
attempt("module", lambda: libc.syscall(175 if os.uname().machine == "x86_64" else 105, b"x", 1, b""))
attempt("uid of another", lambda: os.setuid(1 if os.getuid() != 1 else 2))
attempt("reboot", lambda: libc.reboot(0))
`
	hostWrites = `
for path in ("/usr/bin/x", "/etc/x", "/var/tmp/glovebox-layers-test", "/root/x", "/sys/kernel/x", "/proc/sys/kernel/x"):
    attempt("write " + path, lambda: os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
attempt("raise a limit", lambda: os.open("/proc/sys/user/max_user_namespaces", os.O_WRONLY))
`
	forkBomb = `
children = 0
try:
    for _ in range(2000):
        if os.fork() == 0:
            signal.pause()
        children += 1
    print("through: 2000 processes")
except OSError:
    pass
`
	signals = `
for pid in range(1, 4096):
    if pid != os.getpid():
        attempt(f"signal to {pid}", lambda: os.kill(pid, signal.SIGCONT))
`
	rawSockets = `
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).fileno())
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).fileno())
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).fileno())
attempt("abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\0/org/systemd/notify"))
attempt("low port", lambda: socket.socket().bind(("127.0.0.1", 1)))
`
	hostName  = `attempt("host name", lambda: libc.sethostname(b"x", 1))`
	rootFiles = `
attempt("owner of a file", lambda: os.chown("/tmp", 1000, 1000))
attempt("file of root", lambda: os.open("/etc/shadow", os.O_RDONLY))
`
)

// hostKey is the key of a shared memory segment that this process makes on the host.
const hostKey = 0x67785f74

// sharedMemory tries to reach the segment.
func sharedMemory() string {
	return fmt.Sprintf("attempt('shared memory of the host', lambda: libc.shmget(%d, 0, 0o600))\n", hostKey)
}

func hostSegment(t *testing.T) {
	t.Helper()
	id, err := unix.SysvShmGet(hostKey, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
}

// weakGuest builds the guest that leaves out what it is told to. No shipped program has it.
func weakGuest(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "guest")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "glovebox_weaken", "-o", path, "glovebox/cmd/guest")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest that can be weakened: %v\n%s", err, output)
	}
	return path
}

// weakened are the options of a daemon whose native sandboxes go without a layer.
func weakened(t *testing.T, rootfs, guest string, without ...string) daemon.Options {
	t.Helper()
	constructor := daemon.Constructor{Name: native.Name, New: func(s daemon.Settings) (sandbox.Backend, error) {
		backend, err := native.New(native.Config{
			StateDir: filepath.Join(s.State, native.Name), RuntimeDir: s.Runtime, Rootfs: s.Rootfs, Log: s.Log,
		})
		if err != nil {
			return nil, err
		}
		file, err := os.Open(guest)
		if err != nil {
			return nil, err
		}
		native.Weaken(backend, file, without...)
		return backend, nil
	}}
	return daemon.Options{Backends: []daemon.Constructor{constructor}, Images: oneImage{rootfs}}
}

type oneImage struct{ rootfs string }

func (i oneImage) Use(string) (string, func(), error) { return i.rootfs, func() {}, nil }

func daemonConfig(t *testing.T) config.Config {
	t.Helper()
	c := config.Default(2)
	c.Data, c.Runtime, c.Addr = t.TempDir(), t.TempDir(), "127.0.0.1:0"
	c.Pool.Enabled = false
	return c
}

func openSystem(t *testing.T, options daemon.Options) *daemon.System {
	t.Helper()
	system, err := daemon.Open(daemonConfig(t), options, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, context.DeadlineExceeded)
		defer cancel()
		_ = system.Close(ctx) // without pid namespace or groups the end of a box is not known to be one
	})
	return system
}

// TestEachLayerRemoved takes away one layer after the other: the doctor's attacks notice each, a server refuses to start,
// and what the other layers hold is still held.
func TestEachLayerRemoved(t *testing.T) {
	rootfs := imagetest.Rootfs(t)
	newBackend(t) // skips where there is none
	guest := weakGuest(t)
	hostSegment(t)
	for _, removal := range removals() {
		t.Run(removal.layer, func(t *testing.T) {
			system := openSystem(t, weakened(t, rootfs, guest, removal.layer))
			items, err := system.Prove(t.Context(), native.Name, "", sandbox.Capabilities{})
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range items {
				want := proof.Enforced
				if slices.Contains(removal.broken, item.Limit) {
					want = proof.NotEnforced
				}
				if item.Limit == "disk_io" && item.State == proof.NotSupported {
					continue // refused by name, or a folder without a disk of its own
				}
				if item.State != want || item.Evidence == "" {
					t.Errorf("%s: %s, want %s: %s", item.Limit, item.State, want, item.Evidence)
				}
				if want == proof.NotEnforced {
					t.Logf("%s: %s", item.Limit, item.Evidence)
				}
			}
			if err := daemon.RefuseBroken(native.Name, items); engine.CodeOf(err) != engine.CodeBackend ||
				!strings.Contains(err.Error(), removal.broken[0]) {
				t.Errorf("a server would start: %v", err)
			}
			x, err := system.Engine.Run(t.Context(), engine.Request{Code: removal.probe + "\nprint('done')"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(x.Stdout, "done") || strings.Contains(x.Stdout, "through") {
				t.Errorf("the other layers let through (%s %s):\n%s%s", x.Status, x.Message, x.Stdout, x.Stderr)
			}
		})
	}
}

// TestServeRefusesWithoutALayer: the server itself, not only its judgement.
func TestServeRefusesWithoutALayer(t *testing.T) {
	rootfs := imagetest.Rootfs(t)
	newBackend(t) // skips where there is none
	guest := weakGuest(t)
	for _, name := range []string{layer.Seccomp, cgroups} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, context.DeadlineExceeded)
		err := daemon.Serve(ctx, daemonConfig(t), weakened(t, rootfs, guest, name), slog.New(slog.DiscardHandler), io.Discard)
		cancel()
		if engine.CodeOf(err) != engine.CodeBackend || !strings.Contains(err.Error(), "does not hold what it claims") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
