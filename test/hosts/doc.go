// SPDX-License-Identifier: Apache-2.0

// Package hosts runs the whole program on kinds of hosts that this machine is not: another user, a container, an old
// kernel. Each is made for real around a child process: by mounts, capabilities and namespaces, and by system call
// filters whose answers are those of the kernel that is imitated.
package hosts
