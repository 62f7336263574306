// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/internal/image/imagetest"
	"glovebox/internal/proof"
)

// withImages lays the images of this machine, as the user's own, over an empty data folder.
func withImages(t *testing.T) string {
	t.Helper()
	rootfs := imagetest.Rootfs(t) // .../images/built/ID/rootfs, or somewhere else: then there is nothing to lay over
	images := filepath.Dir(filepath.Dir(filepath.Dir(rootfs)))
	if _, err := os.Stat(filepath.Join(images, "built")); err != nil {
		t.Skipf("%s is in no store of images", rootfs)
	}
	return `mkdir /tmp/hosttest/up /tmp/hosttest/work "$GLOVEBOX_DATA/images"
mount -t overlay overlay -o lowerdir=` + images + `,upperdir=/tmp/hosttest/up,workdir=/tmp/hosttest/work "$GLOVEBOX_DATA/images"
chown 65100 "$GLOVEBOX_DATA/images" "$GLOVEBOX_DATA/images/lock" "$GLOVEBOX_DATA"/images/built "$GLOVEBOX_DATA"/images/built/*
`
}

// withGroups gives the user a control group in each hierarchy of version 1, and puts the program into it.
func withGroups(t *testing.T) string {
	t.Helper()
	name := "glovebox-hosts-" + strconv.Itoa(os.Getpid())
	var script strings.Builder
	for _, controller := range []string{"memory", "cpu", "cpuacct", "pids"} {
		dir := filepath.Join("/sys/fs/cgroup", controller, name)
		if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", controller, "cgroup.procs")); err != nil {
			t.Skipf("this host has no hierarchy of cgroup version 1 for %s", controller)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, path := range []string{filepath.Join(dir, "glovebox"), dir} {
				if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
					t.Errorf("something is left in the user's group: %v", err)
				}
			}
		})
		script.WriteString("chown -R 65100 " + dir + "; echo $$ > " + dir + "/cgroup.procs\n")
	}
	return script.String()
}

// prove attacks every limit on the host and returns what holds not.
func (h host) prove(t *testing.T) map[string]proof.State {
	t.Helper()
	stdout, stderr := h.run(t, "doctor", "--json")
	var answer struct{ Backends []diagnosis }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || len(answer.Backends) != 1 {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	open := make(map[string]proof.State)
	attacked := false
	for _, item := range answer.Backends[0].Proof {
		attacked = attacked || item.Limit == "leftover processes"
		// Advice about the host, and a limit that no sandbox has unless it asks for it.
		if item.Limit == "core_pattern" || item.Limit == "disk_io" && item.State == proof.NotSupported {
			continue
		}
		if item.State != proof.Enforced {
			open[item.Limit] = item.State
		}
	}
	if !attacked {
		t.Fatalf("nothing was attacked: %s", answer.Backends[0].Why)
	}
	return open
}

// TestUserWithGroups: a user with subordinate uids and control groups of its own loses nothing.
func TestUserWithGroups(t *testing.T) {
	needRoot(t)
	if open := (host{script: withGroups(t) + asUser(true) + withImages(t) + toUser}).prove(t); len(open) > 0 {
		t.Errorf("does not hold: %v", open)
	}
}

// TestUserWithoutAnything loses exactly what the doctor calls not supported, and still runs code; every result says so.
func TestUserWithoutAnything(t *testing.T) {
	needRoot(t)
	h := host{script: asUser(false) + withImages(t) + toUser, args: []string{"--accept-missing=cgroup_memory,cgroup_cpu,cgroup_pids"}}
	lost := []string{"cgroup_cpu", "cgroup_memory", "cgroup_pids", "cpu", "memory", "memory of tmpfs", "pids", "uid", "user"}
	open := h.prove(t)
	for limit, state := range open {
		if state != proof.NotSupported || !slices.Contains(lost, limit) {
			t.Errorf("%s: %s", limit, state)
		}
	}
	if len(open) != len(lost) {
		t.Errorf("not supported: %v, want %v", open, lost)
	}
	script := filepath.Join(dataFolder(t), "script.py")
	if err := os.WriteFile(script, []byte("print(6 * 7)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := h.run(t, "run", script)
	if stdout != "42\n" {
		t.Errorf("stdout %q", stdout)
	}
	for _, layer := range []string{"uid", "cgroup_memory", "cgroup_cpu", "cgroup_pids"} {
		if !strings.Contains(stderr, "this sandbox has no layer "+layer+":") {
			t.Errorf("the result does not say that it went without %s", layer)
		}
	}
	h.args = nil
	if stdout, stderr = h.run(t, "run", script); stdout != "" || !strings.Contains(stderr, "missing cgroup_memory") {
		t.Errorf("without groups, not accepted: %q %q", stdout, stderr)
	}
}

// TestWarmForUser: the pool's warm sandboxes work in a user's namespace too.
func TestWarmForUser(t *testing.T) {
	needRoot(t)
	script := filepath.Join(dataFolder(t), "script.py")
	if err := os.WriteFile(script, []byte("import os\nprint('uid', os.getuid())\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	serve := `timeout --signal=TERM 120 setpriv --reuid 65100 --regid 65100 --clear-groups "$1" serve --addr 127.0.0.1:0 > /tmp/hosttest/announced 2>&1 &
server=$!
until grep -q listens /tmp/hosttest/announced || ! kill -0 $server 2>/dev/null; do sleep 0.1; done
cat /tmp/hosttest/announced >&2
for attempt in $(seq 50); do
  setpriv --reuid 65100 --regid 65100 --clear-groups "$@" > /tmp/hosttest/answer || true
  if grep -q '"pool_hit":true' /tmp/hosttest/answer || ! kill -0 $server 2>/dev/null; then break; fi
  sleep 0.1
done
cat /tmp/hosttest/answer
kill $server
wait $server
`
	h := host{script: withGroups(t) + asUser(true) + withImages(t) + serve}
	stdout, stderr := h.run(t, "run", "--json", script)
	if !strings.Contains(stdout, `"uid 1000`) || !strings.Contains(stdout, `"pool_hit":true`) {
		t.Errorf("%s%s", stdout, stderr)
	}
}

// TestWithoutLandlock: on a kernel without Landlock, accepted, every other attack is held, and a run works.
func TestWithoutLandlock(t *testing.T) {
	needRoot(t)
	h := host{
		script:  "mkdir -p /tmp/hosttest && mount -t tmpfs tmpfs /tmp/hosttest\n" + withImages(t),
		answers: []answer{{Call: unix.SYS_LANDLOCK_CREATE_RULESET, Errno: unix.ENOSYS}}, args: []string{"--accept-missing=landlock"},
	}
	open := h.prove(t)
	if len(open) != 2 || open["landlock"] != proof.NotSupported || open["path rules"] != proof.NotSupported {
		t.Errorf("not enforced: %v", open)
	}
}
