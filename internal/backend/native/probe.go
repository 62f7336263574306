// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"glovebox/internal/cgroup"
	"glovebox/internal/guest/confine"
	"glovebox/internal/guest/keeper"
	"glovebox/internal/guest/layer"
	"glovebox/internal/sandbox"
)

// Probe tries every layer on this host, once.
func (b *Backend) Probe(context.Context) (sandbox.Capabilities, error) {
	b.probeOnce.Do(func() { b.capabilities = b.probe() })
	return b.capabilities, nil
}

func (b *Backend) probe() sandbox.Capabilities {
	layers := []sandbox.Layer{b.probeRoot()}
	if layers[0].Present {
		layers = append(layers, b.probeUIDs())
		namespaces := b.probeNamespaces()
		layers = append(layers, namespaces...)
		if namespaces[0].Present { // without that, nothing would be learnt
			layers = append(layers, b.probeProc())
		}
		layers = append(layers, b.probeMounts())
	}
	layers = append(layers, probeLandlock(), probeSeccomp())
	layers = append(layers, b.probeCgroups()...)
	layers = append(layers, probeCorePattern())
	b.accept(layers)
	capabilities := sandbox.Capabilities{Available: true, Layers: layers, MultiTenant: true, Warm: true}
	if lost := capabilities.Lost(); len(lost) > 0 {
		capabilities.MultiTenant = false
		capabilities.Why = "for one tenant alone, without: " + layerNames(lost)
		// A zygote's sessions change their groups, which one uid alone may not.
		capabilities.Warm = !b.without.Has(layer.UID)
	}
	if missing := capabilities.Missing(); len(missing) > 0 {
		capabilities.Available, capabilities.MultiTenant = false, false
		capabilities.Why = "missing: " + layerNames(missing)
	}
	return capabilities
}

func layerNames(layers []sandbox.Layer) string {
	names := make([]string, len(layers))
	for i, layer := range layers {
		names[i] = layer.Name
	}
	return strings.Join(names, ", ")
}

// Acceptable returns the layers that a host may lack if its operator says so: what they hold, others hold too, or it is a
// limit of what a run uses.
func Acceptable() []string {
	return []string{layer.Landlock, cgroupLayer(cgroup.Memory), cgroupLayer(cgroup.CPU), cgroupLayer(cgroup.PIDs)}
}

func cgroupLayer(controller string) string { return "cgroup_" + controller }

// accept marks what the host lacks and is accepted, and has sandboxes made without it.
func (b *Backend) accept(layers []sandbox.Layer) {
	var controllers []string
	for i := range layers {
		l := &layers[i]
		if l.Name == layer.UID && !l.Present {
			b.without = append(b.without, layer.UID)
		}
		if l.Present || !slices.Contains(b.config.AcceptMissing, l.Name) {
			continue
		}
		l.Required = false
		l.Detail += "; accepted: what it limits is not limited"
		if controller, found := strings.CutPrefix(l.Name, "cgroup_"); found {
			controllers = append(controllers, controller)
			continue
		}
		b.without = append(b.without, l.Name)
	}
	if len(controllers) > 0 {
		b.cgroups = b.cgroups.Without(controllers...)
	}
}

func layerOf(name string, err error, present, mend string) sandbox.Layer {
	l := sandbox.Layer{Name: name, Required: true, Present: err == nil, Detail: present}
	if err != nil {
		l.Detail, l.Mend = err.Error(), mend
	}
	return l
}

func (b *Backend) probeRoot() sandbox.Layer {
	var err error
	present := "uid 0 of the host"
	switch uid := os.Geteuid(); {
	case uid != 0 && b.config.Rootless != "":
		err = fmt.Errorf("uid %d, and it cannot have a user namespace: %s", uid, b.config.Rootless)
	case b.config.Rootless != "" && b.config.UIDs == 0:
		err = fmt.Errorf("uid 0 without CAP_SYS_ADMIN, and it cannot have a user namespace: %s", b.config.Rootless)
	case uid != 0:
		err = fmt.Errorf("uid %d", uid)
	case b.config.UIDs > 0:
		present = fmt.Sprintf("uid 0 of a user namespace of %d uids", b.config.UIDs)
	}
	return layerOf("root", err, present, namespaceMend())
}

// probeUIDs: sandboxes have uids of their own, or share the user's.
func (b *Backend) probeUIDs() sandbox.Layer {
	var err error
	space := spaceOf(b.config.UIDs)
	if space.single() {
		why := b.config.Rootless
		if why == "" {
			why = fmt.Sprintf("the user namespace that glovebox was started in has %d uids", b.config.UIDs)
		}
		err = fmt.Errorf("programs run as the user who started glovebox, and those of all sandboxes share that uid, its groups and its budgets: %s", why)
	}
	l := layerOf(layer.UID, err, fmt.Sprintf("%d ranges of %d uids", space.ranges, space.size),
		"install newuidmap and newgidmap (Debian: apt install uidmap) and grant ids: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER")
	l.Required = false
	return l
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
		layers[i] = layerOf(kind.name, b.tryNamespace(keeper.ProbeCommand, kind.flag), "a process was started in one", namespaceMend())
	}
	return layers
}

// probeProc mounts a /proc as the keeper does: the kernel refuses that where something of the visible one is covered.
func (b *Backend) probeProc() sandbox.Layer {
	err := b.tryNamespace(keeper.ProbeProcCommand, unix.CLONE_NEWPID|unix.CLONE_NEWNS)
	mend := "let nothing be mounted over folders of /proc: container engines do that, and leave it with --security-opt systempaths=unconfined " +
		"(Docker) or unmask=ALL (Podman)"
	if filtered() {
		mend += "; or " + namespaceMend()
	}
	return layerOf("proc_mount", err, "a /proc of its own was mounted", mend)
}

func (b *Backend) tryNamespace(role string, flags uintptr) error {
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: spaceOf(b.config.UIDs).first, Size: 1}}
	said, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	process, err := spawnGuest(b.guest, role, []*os.File{theirs}, &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | flags, UidMappings: mapping, GidMappings: mapping,
		Credential: &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: true},
	})
	_ = theirs.Close()
	if err != nil {
		return err
	}
	text, readErr := io.ReadAll(io.LimitReader(said, 1<<10))
	state, err := process.Wait()
	switch {
	case err != nil || readErr != nil:
		return errors.Join(err, readErr)
	case len(text) > 0:
		return errors.New(string(text))
	case !state.Success():
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
	return layerOf("mount_api", err, "a private read-only tree was made", "Linux 5.12 or newer and CAP_SYS_ADMIN are needed; in a container, neither its capabilities nor its system call filter may take them away")
}

func probeLandlock() sandbox.Layer {
	abi, err := confine.LandlockABI()
	return layerOf("landlock", err, fmt.Sprintf("version %d", abi), "use Linux 5.13 or newer with landlock in its lsm= list, or do without this second wall around files: "+acceptMend(layer.Landlock))
}

func probeSeccomp() sandbox.Layer {
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, 0)
	var err error
	// A kernel with filters gets as far as the missing program.
	if !errors.Is(errno, unix.EFAULT) {
		err = fmt.Errorf("the kernel has no seccomp filters: %w", errno)
	}
	return layerOf("seccomp", err, "filters can be set", "use a kernel with CONFIG_SECCOMP_FILTER")
}

// probeCgroups makes a group, limits it and removes it.
func (b *Backend) probeCgroups() []sandbox.Layer {
	var layers []sandbox.Layer
	missing := b.cgroups.Missing()
	for _, controller := range []string{cgroup.Memory, cgroup.CPU, cgroup.PIDs} {
		var err error
		switch fault := b.cgroups.Fault(controller); {
		case fault != nil:
			err = fault
		case slices.Contains(missing, controller):
			err = fmt.Errorf("no mounted hierarchy offers it (host has cgroup %s)", b.cgroups.Kind())
		default:
			err = b.tryGroup(controller)
		}
		layers = append(layers, layerOf(cgroupLayer(controller), err, "a group was made, limited and removed (cgroup "+b.cgroups.Kind()+")",
			b.cgroupMend(controller, err)))
	}
	return layers
}

// tryGroup makes a group with one controller, limits it and removes it.
func (b *Backend) tryGroup(controller string) error {
	host := b.cgroups.Only(controller)
	group, err := host.Create(fmt.Sprintf("probe%d", os.Getpid()))
	if err != nil {
		return err
	}
	return errors.Join(group.Set(cgroup.Limits{Memory: guestMemory, MilliCPU: 1000, PIDs: guestPIDs}), group.Remove())
}
