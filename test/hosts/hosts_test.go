// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/internal/proof"
)

// asUser runs the program as a user that nobody else is, who has subordinate uids or none.
func asUser(subuid bool) string {
	grant := ""
	if subuid {
		grant = "hosttest:700000:65536"
	}
	return `mkdir -p /tmp/hosttest && mount -t tmpfs tmpfs /tmp/hosttest
cp /etc/passwd /tmp/hosttest/passwd && echo hosttest:x:65100:65100::/tmp:/bin/sh >> /tmp/hosttest/passwd
mount --bind /tmp/hosttest/passwd /etc/passwd
echo "` + grant + `" > /tmp/hosttest/subuid
touch /etc/subuid /etc/subgid; mount --bind /tmp/hosttest/subuid /etc/subuid; mount --bind /tmp/hosttest/subuid /etc/subgid
cp "$1" /tmp/hosttest/program; shift; set -- /tmp/hosttest/program "$@"
`
}

const toUser = `exec setpriv --reuid 65100 --regid 65100 --clear-groups "$@"`

// refuses makes clone and unshare with CLONE_NEWUSER fail.
func refuses(errno unix.Errno) []answer {
	return []answer{
		{Call: unix.SYS_CLONE, Mask: unix.CLONE_NEWUSER, Errno: errno},
		{Call: unix.SYS_UNSHARE, Errno: errno},
		{Call: unix.SYS_CLONE3, Errno: unix.ENOSYS},
	}
}

// TestHosts: on each kind of host the doctor names the layer that is missing and its mend, and no other as the cause.
func TestHosts(t *testing.T) {
	needRoot(t)
	cases := map[string]struct {
		host
		available bool
		layer     string // what is not supported, and why and what to do must be said in these words
		evidence  string
		mend      string
	}{
		"user with subordinate uids": {
			host: host{script: asUser(true) + toUser}, layer: "cgroup_memory", evidence: "denied", mend: "chown -R USER",
		},
		"user with subordinate uids, limits given up": {
			host:      host{script: asUser(true) + toUser, args: []string{"--accept-missing=cgroup_memory,cgroup_cpu,cgroup_pids"}},
			available: true, layer: "cgroup_pids", evidence: "accepted: what it limits is not limited", mend: "chown -R USER",
		},
		"user without subordinate uids": {
			host:      host{script: asUser(false) + toUser, args: []string{"--accept-missing=cgroup_memory,cgroup_cpu,cgroup_pids"}},
			available: true, layer: "uid", evidence: "share that uid", mend: "usermod --add-subuids",
		},
		"container without CAP_SYS_ADMIN": {
			host:      host{script: `exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$@"`},
			available: true, layer: "uid", evidence: "share that uid", mend: "usermod --add-subuids",
		},
		"container with parts of /proc covered": {
			host: host{script: `mount -t tmpfs tmpfs /proc/tty`}, layer: "proc_mount", evidence: "operation not permitted",
			mend: "systempaths=unconfined",
		},
		"container with read-only control groups": {
			host:  host{script: `for d in $(awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts); do mount -o remount,ro,bind $d; done`},
			layer: "cgroup_memory", evidence: "read-only file system", mend: "a writable mount",
		},
		"container whose filter forbids namespaces": {
			host: host{answers: refuses(unix.EPERM)}, layer: "user_namespace", evidence: "operation not permitted",
			mend: "seccomp=unconfined",
		},
		"container whose filter forbids mounts": {
			host:  host{answers: []answer{{Call: unix.SYS_MOUNT, Errno: unix.EPERM}, {Call: unix.SYS_OPEN_TREE, Errno: unix.EPERM}}},
			layer: "mount_api", evidence: "operation not permitted", mend: "system call filter",
		},
		"container without CAP_SYS_ADMIN whose filter forbids namespaces": {
			host:  host{script: `exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$@"`, answers: refuses(unix.EPERM)},
			layer: "root", evidence: "without CAP_SYS_ADMIN", mend: "seccomp=unconfined",
		},
		"Ubuntu's AppArmor restriction": {
			host: host{script: "mount -t tmpfs tmpfs /proc/sys/kernel && echo 1 > /proc/sys/kernel/apparmor_restrict_unprivileged_userns\n" +
				asUser(true) + toUser, answers: refuses(unix.EACCES)},
			layer: "root", evidence: "permission denied", mend: "deploy/apparmor/glovebox",
		},
		"no namespaces for users": {
			host: host{script: "mount -t tmpfs tmpfs /proc/sys/kernel && echo 0 > /proc/sys/kernel/unprivileged_userns_clone\n" +
				asUser(true) + toUser, answers: refuses(unix.EPERM)},
			layer: "root", evidence: "operation not permitted", mend: "sysctl -w kernel.unprivileged_userns_clone=1",
		},
		"no user namespaces at all": {
			host:  host{script: `exec unshare --user --map-root-user bash -c 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"' host "$@"`},
			layer: "user_namespace", evidence: "no space left on device", mend: "sysctl -w user.max_user_namespaces",
		},
		"kernel without Landlock": {
			host:  host{answers: []answer{{Call: unix.SYS_LANDLOCK_CREATE_RULESET, Errno: unix.ENOSYS}}},
			layer: "landlock", evidence: "no Landlock", mend: "--accept-missing=landlock",
		},
		"kernel without Landlock, accepted": {
			host:      host{answers: []answer{{Call: unix.SYS_LANDLOCK_CREATE_RULESET, Errno: unix.ENOSYS}}, args: []string{"--accept-missing=landlock"}},
			available: true, layer: "landlock", evidence: "accepted", mend: "Linux 5.13",
		},
		"kernel without seccomp filters": {
			host:  host{answers: []answer{{Call: unix.SYS_SECCOMP, Errno: unix.ENOSYS}}},
			layer: "seccomp", evidence: "no seccomp filters", mend: "CONFIG_SECCOMP_FILTER",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			found := c.diagnose(t)
			item := found.item(t, c.layer)
			if found.Available != c.available || item.State != proof.NotSupported {
				t.Errorf("available %v (%s), %s is %s", found.Available, found.Why, c.layer, item.State)
			}
			if !strings.Contains(found.Why, c.layer) || !strings.Contains(item.Evidence, c.evidence) || !strings.Contains(item.Mend, c.mend) {
				t.Errorf("why: %s\nevidence: %s\nmend: %s", found.Why, item.Evidence, item.Mend)
			}
		})
	}
}

// TestCorePatternPipe: the doctor warns of it, and nothing is refused for it.
func TestCorePatternPipe(t *testing.T) {
	needRoot(t)
	found := host{script: `echo '|/usr/bin/helper %p' > /tmp/core_pattern.$$; mount --bind /tmp/core_pattern.$$ /proc/sys/kernel/core_pattern; rm /tmp/core_pattern.$$`}.diagnose(t)
	item := found.item(t, "core_pattern")
	if item.State != proof.NotEnforced || !strings.Contains(item.Evidence, "/usr/bin/helper") || !strings.Contains(item.Mend, "kernel.core_pattern=core") {
		t.Errorf("%+v", item)
	}
}

// TestServeRefusesTenants: on a host that cannot keep tenants apart a server starts only for one, who is named.
func TestServeRefusesTenants(t *testing.T) {
	needRoot(t)
	h := host{script: asUser(false) + toUser, args: []string{"--accept-missing=cgroup_memory,cgroup_cpu,cgroup_pids"}}
	_, stderr := h.run(t, "serve", "--addr", "127.0.0.1:0")
	for _, part := range []string{"cannot keep tenants apart", "uid", "--single-tenant"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("%q is not said: %s", part, stderr)
		}
	}
}

// TestServeForOneTenant: named, it starts on the same host.
func TestServeForOneTenant(t *testing.T) {
	needRoot(t)
	serve := `setpriv --reuid 65100 --regid 65100 --clear-groups "$@" > /tmp/hosttest/announced 2>&1 &
server=$!
until grep -q listens /tmp/hosttest/announced || ! kill -0 $server 2>/dev/null; do sleep 0.1; done
cat /tmp/hosttest/announced
kill $server
wait $server
`
	h := host{script: asUser(false) + serve, args: []string{"--accept-missing=cgroup_memory,cgroup_cpu,cgroup_pids"}}
	stdout, _ := h.run(t, "serve", "--addr", "127.0.0.1:0", "--single-tenant")
	for _, part := range []string{"glovebox listens on", "layer=uid", "layer=cgroup_memory"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("%q is not said", part)
		}
	}
}

// TestAcceptOnlyWhatIsNamed: a layer that nothing else replaces cannot be given up, and the spelling is checked.
func TestAcceptOnlyWhatIsNamed(t *testing.T) {
	needRoot(t)
	for _, name := range []string{"seccomp", "user_namespace", "uid", "landlok"} {
		found := host{args: []string{"--accept-missing=" + name}}.diagnose(t)
		if found.Available || !strings.Contains(found.Why, `"`+name+`" is not one of landlock, cgroup_memory`) {
			t.Errorf("%s: %+v", name, found)
		}
	}
}
