// SPDX-License-Identifier: Apache-2.0

package box

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/layer"
	"glovebox/internal/guest/layout"
)

// stage is where the root is put together; every Linux has it, and the mount is private to the box.
const stage = "/tmp"

// Handles are open folders of a box's writable mounts.
type Handles struct {
	Workspace, Tmp, Shm *os.File
}

// Files returns the handles in the order in which they are sent to the daemon.
func (h Handles) Files() []*os.File { return []*os.File{h.Workspace, h.Tmp, h.Shm} }

// Build turns the fresh namespaces that this process is the first of into a box, and enters it. On an error the
// process must exit: it is half inside.
func Build(spec Spec) (Handles, error) {
	steps := []struct {
		name string
		do   func(Spec) error
		of   string // the layer without which the step would change the host's own
	}{
		{"join the guest's cgroup", joinGuestCgroups, ""},
		{"forbid nested namespaces", forbidNamespaces, layer.Users},
		{"forbid watches", forbidWatches, layer.Users},
		{"bring up loopback", loopbackUp, layer.Network},
		{"set the host name", func(s Spec) error { return unix.Sethostname([]byte(s.Hostname)) }, layer.UTS},
		{"make mounts private", func(Spec) error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }, ""},
		{"attach the image", attachRoot, ""},
		{"show the host", showHost, ""},
		{"mount the folders", mountFolders, ""},
		{"hide the accounts", hideAccounts, ""},
		{"mount /dev", mountDev, ""},
		{"mount /proc", mountProc, layer.PIDs},
		{"enter the root", enterRoot, ""},
	}
	for _, step := range steps {
		if spec.Without.Has(step.of) {
			continue
		}
		if err := step.do(spec); err != nil {
			return Handles{}, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return openHandles()
}

// joinGuestCgroups also makes the cgroup namespace, so that nothing inside sees where on the host it is.
func joinGuestCgroups(spec Spec) error {
	for fd := FirstCgroupFD; fd < FirstCgroupFD+spec.GuestCgroups; fd++ {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return err
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	if spec.Without.Has(layer.Cgroups) {
		return nil
	}
	return allThreads("cgroup namespace", unix.SYS_UNSHARE, unix.CLONE_NEWCGROUP, 0, 0)
}

// forbidNamespaces is the second wall behind seccomp: even a process that could call unshare gets ENOSPC.
func forbidNamespaces(Spec) error {
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"} {
		name := "/proc/sys/user/max_" + kind + "_namespaces"
		if err := os.WriteFile(name, []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}

// forbidWatches takes away what is counted for the owner of the user namespace too, up to the host's root: 128 inotify
// instances of all sandboxes together would leave none to the host's own services.
func forbidWatches(Spec) error {
	for _, name := range []string{"max_inotify_instances", "max_fanotify_groups"} {
		err := os.WriteFile("/proc/sys/user/"+name, []byte("0"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without it
			return err
		}
	}
	return nil
}

func loopbackUp(Spec) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
}

// attachRoot puts the image on a folder of a small tmpfs, which vanishes with the old root.
func attachRoot(Spec) error {
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,nr_inodes=16,mode=0700"); err != nil {
		return err
	}
	root := filepath.Join(stage, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := moveMount(RootFD, root); err != nil {
		return err
	}
	return unix.Chdir(root)
}

// mountFolders mounts with paths relative to the new root, which is the working directory.
func mountFolders(spec Spec) error {
	noExec := uintptr(0)
	if spec.TmpNoExec {
		noExec = unix.MS_NOEXEC
	}
	user := strconv.Itoa(layout.UserUID)
	if spec.Without.Has(layer.UID) {
		user = strconv.Itoa(layout.RootUID)
	}
	owner := ",uid=" + user + ",gid=" + user
	mounts := []struct {
		path, options string
		flags         uintptr
	}{
		{"." + layout.Workspace, sizes(spec.Disk, spec.Inodes) + ",mode=0755" + owner, 0},
		{"." + layout.Tmp, sizes(spec.Tmp, tmpInodes) + ",mode=1777", noExec},
		// The user's own, and yet Landlock grants nothing there: where Landlock is missing it shows here.
		{"./run", sizes(runSize, devInodes) + ",mode=0755" + owner, unix.MS_NOEXEC},
	}
	for _, m := range mounts {
		if err := mountTmpfs(m.path, m.options, m.flags); err != nil {
			return err
		}
	}
	return moveMount(DataFD, "."+layout.Data)
}

// hideAccounts mounts a file that nobody may open over those with the accounts. It is on the tmpfs of the stage, which
// stays with these mounts and is out of reach. What does not exist in the image needs no cover.
func hideAccounts(spec Spec) error {
	if !spec.HideAccounts {
		return nil
	}
	cover := filepath.Join(stage, "cover")
	if err := os.WriteFile(cover, nil, 0); err != nil {
		return err
	}
	const flags = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, path := range []string{"./etc/passwd", "./etc/group"} {
		err := unix.Mount(cover, path, "", unix.MS_BIND, "")
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err == nil {
			err = unix.Mount("", path, "", flags, "")
		}
		if err != nil {
			return &os.PathError{Op: "cover", Path: path, Err: err}
		}
	}
	return nil
}

func mountDev(spec Spec) error {
	if err := mountTmpfs("./dev", sizes(runSize, devInodes)+",mode=0755", unix.MS_NOEXEC); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		target := "./dev/" + name
		if err := os.WriteFile(target, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+name, target, "", unix.MS_BIND, ""); err != nil {
			return &os.PathError{Op: "bind", Path: "/dev/" + name, Err: err}
		}
	}
	for _, dir := range []string{"./dev/pts", "./dev/shm"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	// Terminals are counted for the whole host, and their buffers for nobody.
	const ptsOptions = "newinstance,ptmxmode=0666,mode=0620,max=16"
	if err := unix.Mount("devpts", "./dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, ptsOptions); err != nil {
		return &os.PathError{Op: "mount", Path: "/dev/pts", Err: err}
	}
	noExec := uintptr(0)
	if spec.TmpNoExec {
		noExec = unix.MS_NOEXEC
	}
	if err := mountTmpfs("./dev/shm", sizes(spec.Tmp, tmpInodes)+",mode=1777", noExec); err != nil {
		return err
	}
	links := map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2",
	}
	for name, target := range links {
		if err := os.Symlink(target, "./dev/"+name); err != nil {
			return err
		}
	}
	return unix.Mount("", "./dev", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NOEXEC, "")
}

// mountProc shows a process only the processes of its own user, and no kernel files at all.
func mountProc(Spec) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("proc", "./proc", "proc", flags, "subset=pid,hidepid=invisible"); err != nil {
		return &os.PathError{Op: "mount", Path: "/proc", Err: err}
	}
	return nil
}

func enterRoot(Spec) error {
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}

func openHandles() (Handles, error) {
	var files [3]*os.File
	for i, path := range []string{layout.Workspace, layout.Tmp, layout.Shm} {
		file, err := os.Open(path)
		if err != nil {
			return Handles{}, errors.Join(err, closeAll(files[:i]))
		}
		files[i] = file
	}
	return Handles{Workspace: files[0], Tmp: files[1], Shm: files[2]}, nil
}

func closeAll(files []*os.File) error {
	var err error
	for _, file := range files {
		err = errors.Join(err, file.Close())
	}
	return err
}

func mountTmpfs(path, options string, flags uintptr) error {
	if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|flags, options); err != nil {
		return &os.PathError{Op: "mount tmpfs", Path: path, Err: err}
	}
	return nil
}

func moveMount(fd int, target string) error {
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &os.PathError{Op: "move mount", Path: target, Err: err}
	}
	return unix.Close(fd)
}

func sizes(bytes, inodes int64) string {
	return "size=" + strconv.FormatInt(bytes, 10) + ",nr_inodes=" + strconv.FormatInt(inodes, 10)
}
