// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bare is the subject that all others are compared with: the image's own Python in a plain chroot, without isolation.
const Bare = "bare"

// Peer is another way to run code.
type Peer struct {
	Name string
	// Install says how to get it.
	Install string
	// Flags are how it is started, for the report.
	Flags string
	open  func(ctx context.Context, host peerHost) (Subject, string, error)
}

// peerHost is what a peer may use.
type peerHost struct {
	rootfs string
	digest string
	now    func() time.Time
	// folder is a temporary one.
	folder string
	note   func(format string, values ...any)
}

// Peers returns all peers.
//
// To add one: a row here.
func Peers() []Peer {
	return []Peer{
		{
			Name: Bare, Install: "run the bench as root", open: openBare,
			Flags: "the image's `/usr/bin/python3 -B -` in a chroot, read-only, as uid 1000; no namespace, cgroup or filter",
		},
		{
			Name: "bwrap", Install: "apt-get install bubblewrap", open: openBwrap,
			Flags: "as uid 70000: `--unshare-all --unshare-user --disable-userns --die-with-parent --new-session --cap-drop ALL`, tmpfs of 128 MiB, image read-only; no seccomp filter",
		},
		{
			Name: "docker", Install: "install Docker Engine and start it", open: openDocker,
			Flags: "`run --rm --network none --read-only --cap-drop ALL --security-opt no-new-privileges --memory 512m --pids-limit 64 --tmpfs /tmp`",
		},
		{
			Name: "nsjail", Install: "build github.com/google/nsjail and put it on the PATH", open: openNsjail,
			Flags: "`-Mo -c IMAGE`, uid range mapped, tmpfs of 128 MiB, rlimits as in docs of the peer; no kafel filter, no cgroup",
		},
		{
			Name: "go-judge", Install: "take a release of github.com/criyle/go-judge and put it on the PATH", open: openGoJudge,
			Flags: "REST on loopback, kept alive; the image's folders mounted read-only, 512 MiB, 64 processes, no seccomp filter (its default)",
		},
	}
}

func findPeer(name string) (Peer, error) {
	var names []string
	for _, p := range Peers() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Peer{}, fmt.Errorf("peer %q is not known: choose from %s", name, strings.Join(names, ", "))
}

// python is what every peer starts; the code comes on standard input.
func python() []string { return []string{"/usr/bin/python3", "-B", "-"} }

// threads are equal everywhere: one, as a sandbox with one processor has it.
func threads() []string {
	var list []string
	for _, name := range []string{"OMP", "OPENBLAS", "MKL", "NUMEXPR"} {
		list = append(list, name+"_NUM_THREADS=1")
	}
	return list
}

func environment() []string {
	return append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8", "TZ=UTC"}, threads()...)
}

// flagged puts a flag before each variable.
func flagged(flag string) []string {
	var list []string
	for _, variable := range environment() {
		list = append(list, flag, variable)
	}
	return list
}

// installed finds a program of a peer and reads its version.
func installed(ctx context.Context, program string, version ...string) (path, text string, err error) {
	if path, err = exec.LookPath(program); err != nil {
		return "", "", fmt.Errorf("%s is not on the PATH", program)
	}
	if len(version) == 0 {
		return path, "version unknown", nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer within 10 s"))
	defer cancel()
	out, err := exec.CommandContext(ctx, path, version...).CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("%s %s: %s (%w)", program, version[0], lastLine(string(out)), err)
	}
	return path, lastLine(string(out)), nil
}

// openBare runs the image's Python with nothing around it but the root folder, through a read-only mount that has no
// place in the host's tree, so that nothing can be written to the image.
func openBare(_ context.Context, host peerHost) (Subject, string, error) {
	if os.Geteuid() != 0 {
		return nil, "", errors.New("this user may not change the root folder")
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, host.rootfs, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, "", fmt.Errorf("open the image's tree: %w", err)
	}
	tree := os.NewFile(uintptr(fd), "rootfs")
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attributes); err != nil {
		return nil, "", errors.Join(fmt.Errorf("make the image's tree read-only: %w", err), tree.Close())
	}
	change := func(c *exec.Cmd) {
		c.Env, c.Dir = environment(), "/tmp"
		c.SysProcAttr = &syscall.SysProcAttr{
			Chroot: fmt.Sprintf("/proc/self/fd/%d", tree.Fd()), Credential: &syscall.Credential{Uid: 1000, Gid: 1000},
		}
	}
	return &program{name: Bare, now: host.now, args: python(), change: change, countsFaults: true, close: tree.Close}, "", nil
}

func openBwrap(ctx context.Context, host peerHost) (Subject, string, error) {
	path, version, err := installed(ctx, "bwrap", "--version")
	if err != nil {
		return nil, "", err
	}
	args := []string{
		path, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--ro-bind", host.rootfs, "/", "--proc", "/proc",
		"--dev", "/dev", "--size", "134217728", "--tmpfs", "/tmp", "--chdir", "/tmp", "--clearenv",
	}
	for _, variable := range environment() {
		name, value, _ := strings.Cut(variable, "=")
		args = append(args, "--setenv", name, value)
	}
	change := func(c *exec.Cmd) {
		c.Env, c.Dir = environment(), "/"
		if os.Geteuid() == 0 {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 70000, Gid: 70000}}
		}
	}
	return &program{name: "bwrap", now: host.now, args: append(args, python()...), change: change}, version, nil
}

func openNsjail(ctx context.Context, host peerHost) (Subject, string, error) {
	path, version, err := installed(ctx, "nsjail")
	if err != nil {
		return nil, "", err
	}
	args := []string{
		path, "-Mo", "-Q", "-c", host.rootfs, "-u", "1000:70000:1", "-g", "1000:70000:1", "-m", "none:/tmp:tmpfs:size=134217728",
		"-D", "/tmp", "--rlimit_as", "4096", "--rlimit_fsize", "128", "--rlimit_nofile", "256", "--rlimit_core", "0",
		"--iface_no_lo", "--nice_level", "0",
	}
	args = append(append(args, flagged("-E")...), "--")
	change := func(c *exec.Cmd) { c.Env, c.Dir = environment(), "/" }
	return &program{name: "nsjail", now: host.now, args: append(args, python()...), change: change}, version, nil
}

// openDocker needs the image in Docker's own store: it is imported once, under a name with its digest.
func openDocker(ctx context.Context, host peerHost) (Subject, string, error) {
	path, version, err := installed(ctx, "docker", "version", "--format", "{{.Server.Version}}") // asks the daemon
	if err != nil {
		return nil, "", err
	}
	tag := "glovebox-bench:" + shortDigest(host.digest)
	if exec.CommandContext(ctx, path, "image", "inspect", tag).Run() != nil {
		host.note("importing the image into Docker as %s, a minute or more; `docker rmi %s` removes it", tag, tag)
		if err := dockerImport(ctx, path, host.rootfs, tag); err != nil {
			return nil, "", err
		}
	}
	args := []string{
		path, "run", "--rm", "-i", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--memory", "512m", "--memory-swap", "512m", "--pids-limit", "64", "--tmpfs", "/tmp:size=128m", "--workdir", "/tmp",
		"--user", "1000:1000",
	}
	args = slices.Concat(args, flagged("-e"), []string{tag}, python())
	return &program{name: "docker", now: host.now, args: args}, version, nil
}

func dockerImport(ctx context.Context, docker, rootfs, tag string) error {
	pack := exec.CommandContext(ctx, "tar", "-C", rootfs, "-c", ".")
	load := exec.CommandContext(ctx, docker, "import", "-", tag)
	pipe, err := pack.StdoutPipe()
	if err != nil {
		return err
	}
	load.Stdin = pipe
	if err := pack.Start(); err != nil {
		return fmt.Errorf("pack the image for Docker: %w", err)
	}
	out, err := load.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("docker import: %w: %s", err, lastLine(string(out)))
	}
	return errors.Join(err, pack.Wait())
}

func shortDigest(digest string) string {
	_, hex, found := strings.Cut(digest, ":")
	if !found {
		hex = digest
	}
	return hex[:min(len(hex), 12)]
}
