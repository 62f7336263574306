// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
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
	for _, membership := range []string{
		"0::/\n", "0::/user.slice/session-1.scope\n", "0::/../outside\n", "4:memory:/x\n0::/\n", "4:memory:/x\n", "",
	} {
		if got := delegated("/no/such/mount", "/", membership); got != "/no/such/mount" {
			t.Errorf("%q: %s", membership, got)
		}
	}
}
