// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"glovebox/internal/cgroup"
	"glovebox/internal/sandbox"
)

// namespaceMend says what keeps this process from user namespaces, from the switches that the kernel shows.
func namespaceMend() string {
	switch {
	case number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1:
		return "AppArmor lets only programs with a profile make user namespaces (kernel.apparmor_restrict_unprivileged_userns=1): " +
			"install the profile of glovebox, deploy/apparmor/glovebox: cp glovebox /etc/apparmor.d/ && apparmor_parser -r /etc/apparmor.d/glovebox; " +
			"or run glovebox as root"
	case number("/proc/sys/kernel/unprivileged_userns_clone") == 0:
		return "only root may make user namespaces: sysctl -w kernel.unprivileged_userns_clone=1, or run glovebox as root"
	case number("/proc/sys/user/max_user_namespaces") == 0:
		return "the host allows no user namespaces: sysctl -w user.max_user_namespaces=15000 (and its kin: max_pid_namespaces, max_net_namespaces ...)"
	case filtered():
		return "a system call filter stands around this process, as container engines and services have: allow clone, unshare, setns, mount, " +
			"umount2, pivot_root and the new mount calls (Docker, Podman: --security-opt seccomp=unconfined; systemd: no RestrictNamespaces=)"
	default:
		return "run glovebox as root with CAP_SYS_ADMIN, or allow user namespaces: sysctl user.max_user_namespaces and its kin above 0"
	}
}

// number reads a switch of the kernel; one that is not there is -1.
func number(path string) int {
	content, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	value, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return -1
	}
	return value
}

// filtered reports whether a seccomp filter is on this process.
func filtered() bool {
	content, err := os.ReadFile("/proc/self/status")
	return err == nil && strings.Contains(string(content), "\nSeccomp:\t2\n")
}

func acceptMend(name string) string {
	return "--accept-missing=" + name + " (accept_missing: [" + name + "])"
}

// cgroupMend says how to come by a controller.
func (b *Backend) cgroupMend(controller string, err error) string {
	or := "; or run without this limit: " + acceptMend(cgroupLayer(controller))
	switch {
	case errors.Is(err, unix.EROFS):
		return "mount /sys/fs/cgroup so that it can be written (in a container: a cgroup namespace of its own and a writable mount)" + or
	case b.config.UIDs == 0 && os.Geteuid() == 0:
		return "mount /sys/fs/cgroup with this controller, and let glovebox make groups under " + cgroup.Parent + " there" + or
	case b.cgroups.Kind() == "v2":
		return "start glovebox in a group that systemd hands to you: systemd-run --user --scope -p Delegate=yes -- glovebox ..." + or
	default:
		return fmt.Sprintf("have root hand you a group: d=/sys/fs/cgroup/%s/glovebox-user; mkdir $d && chown -R USER $d && echo PID-OF-YOUR-SHELL > $d/cgroup.procs", controller) + or
	}
}

// probeCorePattern: for a crash in a sandbox a host whose pattern is a pipe starts its helper as root, outside.
func probeCorePattern() sandbox.Layer {
	content, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	pattern := strings.TrimSpace(string(content))
	if err == nil && strings.HasPrefix(pattern, "|") {
		err = fmt.Errorf("core_pattern is %q: the kernel starts it as the host's root for every crash in a sandbox, and gives it what crashed to read", pattern)
	}
	l := layerOf("core_pattern", err, "crashes start no program of the host", "sysctl -w kernel.core_pattern=core")
	l.Required, l.Advice = false, true
	return l
}
