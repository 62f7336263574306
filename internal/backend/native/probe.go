// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"glovebox/internal/cgroup"
	"glovebox/internal/guest/confine"
	"glovebox/internal/sandbox"
)

// ProbeCommand is the argument with which the guest ends at once: it lives to show that a namespace can be had.
const ProbeCommand = "probe"

// Probe tries every layer on this host, once.
func (b *Backend) Probe(context.Context) (sandbox.Capabilities, error) {
	b.probeOnce.Do(func() { b.capabilities = b.probe() })
	return b.capabilities, nil
}

func (b *Backend) probe() sandbox.Capabilities {
	layers := []sandbox.Layer{b.probeRoot()}
	if layers[0].Present {
		layers = append(layers, b.probeNamespaces()...)
		layers = append(layers, b.probeMounts())
	}
	layers = append(layers, probeLandlock(), probeSeccomp())
	layers = append(layers, b.probeCgroups()...)
	layers = append(layers, b.probeDisk())
	capabilities := sandbox.Capabilities{Available: true, Layers: layers, MultiTenant: true, Warm: true}
	if missing := capabilities.Missing(); len(missing) > 0 {
		names := make([]string, len(missing))
		for i, layer := range missing {
			names[i] = layer.Name
		}
		capabilities.Available, capabilities.MultiTenant = false, false
		capabilities.Why = "missing: " + strings.Join(names, ", ")
	}
	return capabilities
}

func layer(name string, err error, present, mend string) sandbox.Layer {
	l := sandbox.Layer{Name: name, Required: true, Present: err == nil, Detail: present}
	if err != nil {
		l.Detail, l.Mend = err.Error(), mend
	}
	return l
}

func (b *Backend) probeRoot() sandbox.Layer {
	var err error
	if uid := os.Geteuid(); uid != 0 {
		err = fmt.Errorf("running as uid %d", uid)
	}
	return layer("root", err, "uid 0", "run glovebox as root: it maps uids, makes control groups and mounts")
}

// probeNamespaces starts a process in each kind of namespace.
func (b *Backend) probeNamespaces() []sandbox.Layer {
	kinds := []struct {
		name string
		flag uintptr
	}{
		{"user_namespace", 0},
		{"pid_namespace", unix.CLONE_NEWPID},
		{"mount_namespace", unix.CLONE_NEWNS},
		{"network_namespace", unix.CLONE_NEWNET},
		{"ipc_namespace", unix.CLONE_NEWIPC},
		{"uts_namespace", unix.CLONE_NEWUTS},
		{"cgroup_namespace", unix.CLONE_NEWCGROUP},
	}
	layers := make([]sandbox.Layer, len(kinds))
	for i, kind := range kinds {
		layers[i] = layer(kind.name, b.tryNamespace(kind.flag), "a process was started in one",
			"allow it: sysctl user.max_user_namespaces (and its kin) above 0; on Ubuntu also "+
				"kernel.apparmor_restrict_unprivileged_userns=0 or a profile for glovebox; in a container, more privileges")
	}
	return layers
}

func (b *Backend) tryNamespace(flag uintptr) error {
	const someUID = firstUID - 1
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: someUID, Size: 1}}
	process, err := spawnGuest(b.guest, ProbeCommand, nil, &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | flag, UidMappings: mapping, GidMappings: mapping,
		Credential: &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
	})
	if err != nil {
		return err
	}
	state, err := process.Wait()
	if err != nil {
		return err
	}
	if !state.Success() {
		return fmt.Errorf("a process started in one ended with %s", state)
	}
	return nil
}

func (b *Backend) probeMounts() sandbox.Layer {
	err := os.MkdirAll(b.config.StateDir, 0o700)
	if err == nil {
		var tree *os.File
		if tree, err = detachedTree(b.config.StateDir, 0); err == nil {
			err = tree.Close()
		}
	}
	return layer("mount_api", err, "a private read-only tree was made", "Linux 5.12 or newer and CAP_SYS_ADMIN are needed")
}

func probeLandlock() sandbox.Layer {
	abi, err := confine.LandlockABI()
	return layer("landlock", err, fmt.Sprintf("version %d", abi), "use Linux 5.13 or newer with landlock in its lsm= list")
}

func probeSeccomp() sandbox.Layer {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, 0)
	var err error
	// A kernel with filters gets as far as the missing program.
	if !errors.Is(errno, unix.EFAULT) {
		err = fmt.Errorf("the kernel has no seccomp filters: %w", errno)
	}
	return layer("seccomp", err, "filters can be set", "use a kernel with CONFIG_SECCOMP_FILTER")
}

// probeCgroups makes a group, limits it and removes it.
func (b *Backend) probeCgroups() []sandbox.Layer {
	var layers []sandbox.Layer
	missing := b.cgroups.Missing()
	for _, controller := range []string{cgroup.Memory, cgroup.CPU, cgroup.PIDs} {
		var err error
		for _, name := range missing {
			if name == controller {
				err = fmt.Errorf("no mounted hierarchy offers it (host has cgroup %s)", b.cgroups.Kind())
			}
		}
		layers = append(layers, layer("cgroup_"+controller, err, "offered by cgroup "+b.cgroups.Kind(),
			"mount /sys/fs/cgroup with this controller, or let systemd delegate it"))
	}
	if len(missing) > 0 {
		return layers
	}
	err := b.tryGroup()
	return append(layers, layer("cgroup_limits", err, "a group was made, limited and removed",
		"glovebox must be allowed to make groups under "+cgroup.Parent+" in /sys/fs/cgroup"))
}

func (b *Backend) tryGroup() error {
	group, err := b.cgroups.Create(fmt.Sprintf("probe%d", os.Getpid()))
	if err != nil {
		return err
	}
	return errors.Join(group.Set(cgroup.Limits{Memory: guestMemory, MilliCPU: 1000, PIDs: guestPIDs}), group.Remove())
}
