// SPDX-License-Identifier: Apache-2.0

// Package native isolates with what Linux itself has, and needs neither Docker nor KVM: user, pid, mount, network, ipc,
// uts and cgroup namespaces, a read-only root, private quotas for everything that can be written, no capabilities,
// no_new_privs, Landlock, a seccomp allow-list and control groups.
//
// # Who does what
//
//	Backend   (daemon)  uids, control groups, mounts of image and uploads, kills, counters
//	keeper    (process) root of a user namespace with a range of uids; starts the first process of each box
//	guest     (PID 1)   builds its box, gives up its privileges, starts and confines programs (package guest/...)
//
// A layer that this host lacks is a refusal that names it (see Probe); nothing is left out in silence. Decision 0001
// says why sessions join a box and do not build one.
package native
