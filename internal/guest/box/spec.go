// SPDX-License-Identifier: Apache-2.0

package box

import "glovebox/internal/guest/layer"

// Spec says how to build a box. It comes from the daemon, which is trusted.
type Spec struct {
	// Hostname is what the box calls itself.
	Hostname string `json:"hostname"`
	// Disk, Inodes and Tmp are the first sizes of the tmpfs mounts; the daemon may change them at the lease.
	Disk   int64 `json:"disk"`
	Inodes int64 `json:"inodes"`
	Tmp    int64 `json:"tmp"`
	// TmpNoExec mounts /tmp and /dev/shm so that nothing on them can be executed.
	TmpNoExec bool `json:"tmp_noexec"`
	// HideAccounts makes the lists of users and groups unreadable for everybody.
	HideAccounts bool `json:"hide_accounts"`
	// Without are the layers that this host lacks and its operator has accepted to be without.
	Without layer.Set `json:"without,omitempty"`
	// GuestCgroups and UserCgroups count the cgroup.procs descriptors that follow FirstCgroupFD: first those that the
	// guest joins itself, then those that it hands to everything it starts.
	GuestCgroups int `json:"guest_cgroups"`
	UserCgroups  int `json:"user_cgroups"`
}

// The descriptors that the first process of a box starts with.
const (
	// ChannelFD is the guest channel to the daemon.
	ChannelFD = 3
	// LaneFD is a SOCK_SEQPACKET socket beside the channel, for what carries descriptors: first the Spec in and the
	// handles of the writable mounts out, later the ends of interpreters that were forked into the box.
	LaneFD = 4
	// RootFD and DataFD are detached mounts: the image and the uploads.
	RootFD = 5
	DataFD = 6
	// FirstCgroupFD is the first cgroup.procs file.
	FirstCgroupFD = 7
)

// Sizes of the mounts that only the guest writes.
const (
	runSize   = 1 << 20
	devInodes = 64
	// tmpInodes bounds the files on /tmp and on /dev/shm, each.
	tmpInodes = 16384
)
