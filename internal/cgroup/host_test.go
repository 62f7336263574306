// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestParseMounts: the three kinds of hosts, told from their mounts.
func TestParseMounts(t *testing.T) {
	t.Parallel()
	const (
		v1 = "30 24 0:26 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n" +
			"31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:10 - cgroup cgroup rw,cpu,cpuacct\n" +
			"32 24 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
		v2   = "29 23 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		both = v1 + "33 24 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	)
	cases := []struct {
		name, mounts, kind string
		unified            []string
		missing            int
		roots              int
	}{
		{"version 1", v1, "v1", nil, 0, 3},
		{"version 2", v2, "v2", []string{"cpuset", "cpu", "io", "memory", "pids"}, 0, 1},
		{"both, controllers in version 1", both, "hybrid", []string{"hugetlb"}, 0, 3},
		{"both, memory in version 2", strings.Replace(both, "cgroup rw,memory", "cgroup rw,blkio", 1), "hybrid", []string{"memory"}, 0, 3},
		{"version 2 without controllers", v2, "v2", nil, 3, 0},
		{"nothing", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "none", nil, 3, 0},
		{"damaged lines", "cgroup\n- - -\n\n1 2 3 - cgroup\n", "none", nil, 3, 0},
	}
	for _, c := range cases {
		host, err := parseMounts(strings.NewReader(c.mounts))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		host.unified = c.unified
		if host.Kind() != c.kind || len(host.Missing()) != c.missing || len(host.roots()) != c.roots {
			t.Errorf("%s: kind %s, missing %v, roots %v", c.name, host.Kind(), host.Missing(), host.roots())
		}
	}
}

// TestZeroLimitsAreRefused: a forgotten field never means unlimited.
func TestZeroLimitsAreRefused(t *testing.T) {
	t.Parallel()
	group := (&Host{}).Open("x")
	for _, limits := range []Limits{
		{}, {MilliCPU: 1, PIDs: 1}, {Memory: 1, PIDs: 1}, {Memory: 1, MilliCPU: 1}, {Memory: -1, MilliCPU: 1, PIDs: 1},
	} {
		if group.Set(limits) == nil {
			t.Errorf("%+v was taken", limits)
		}
	}
	for _, weight := range []int64{0, -1, 1001} {
		if group.SetWeight(weight) == nil {
			t.Errorf("weight %d was taken", weight)
		}
	}
}

// TestWithoutControllers: what a host is used without is neither limited, nor counted, nor missing.
func TestWithoutControllers(t *testing.T) {
	t.Parallel()
	host := (&Host{v1: map[string]string{}}).Without(Memory, CPU, PIDs)
	group, err := host.Create("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := group.Set(Limits{Memory: 1, MilliCPU: 1, PIDs: 1}); err != nil {
		t.Error(err)
	}
	if err := group.Set(Limits{Memory: 1}); err == nil {
		t.Error("a limit of zero was taken")
	}
	usage, err := group.Usage()
	if err != nil || usage != (Usage{}) {
		t.Errorf("%+v, %v", usage, err)
	}
	if empty, err := group.Empty(); !empty || err != nil {
		t.Errorf("empty %v, %v", empty, err)
	}
	if files, err := group.Procs(0); len(files) > 0 || err != nil {
		t.Errorf("%d files, %v", len(files), err)
	}
	if len(host.Missing()) > 0 || len((&Host{}).Missing()) != 3 {
		t.Error("what is missing and what is not used are not told apart")
	}
	if only := host.Only(Memory); !only.lacks(CPU) || only.lacks(Memory) {
		t.Error("one controller alone is not that one")
	}
}

// TestOwnGroup: where the root of a hierarchy cannot be written, the group that this process was put into is used; where
// neither can be, the controller is as good as not there, and why is kept.
func TestOwnGroup(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Log("as root every folder can be written: only the missing ones are told apart")
	}
	mount := t.TempDir()
	host := &Host{v1: map[string]string{Memory: mount, PIDs: filepath.Join(mount, "gone")}, mountRoots: map[string]string{mount: "/", filepath.Join(mount, "gone"): "/"}}
	if err := host.settle(strings.NewReader("4:memory:/a/b\n3:pids:/c\n0::/d\ndamaged\n")); err != nil {
		t.Fatal(err)
	}
	if host.root(Memory) != mount || host.Fault(Memory) != nil {
		t.Errorf("memory: %q, %v", host.root(Memory), host.Fault(Memory))
	}
	if host.root(PIDs) != "" || host.Fault(PIDs) == nil {
		t.Errorf("pids: %q, %v", host.root(PIDs), host.Fault(PIDs))
	}
}

// FuzzParseMounts: no mount table makes it panic.
func FuzzParseMounts(f *testing.F) {
	f.Add("30 24 0:26 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n")
	f.Fuzz(func(t *testing.T, table string) {
		if host, err := parseMounts(strings.NewReader(table)); err == nil {
			_ = host.Kind()
			_ = host.roots()
		}
	})
}

// TestOwnPlace: a process outside a delegated unit makes groups at the root of what is mounted, whatever its own group is
// called and whether it can be seen from there or not.
func TestOwnPlace(t *testing.T) {
	t.Parallel()
	for _, membership := range []string{"/", "/user.slice/session-1.scope", "/../outside", ""} {
		if got := delegated("/no/such/mount", "/", membership); got != "/no/such/mount" {
			t.Errorf("%q: %s", membership, got)
		}
	}
}
