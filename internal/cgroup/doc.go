// SPDX-License-Identifier: Apache-2.0

// Package cgroup makes, limits, measures and removes control groups on whatever the host offers: version 1, version 2,
// or both side by side, where some controllers live in one and some in the other.
//
// In version 2 groups are made where this process may make some: in the unit that was delegated to it, or at the root of
// what is mounted. Processes and groups with controllers do not go together there, so that the process may have to step
// aside into a leaf.
//
// It writes the kernel's files directly. Formats are those of the kernel's documents admin-guide/cgroup-v1 and
// admin-guide/cgroup-v2.
package cgroup
