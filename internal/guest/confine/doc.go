// SPDX-License-Identifier: Apache-2.0

// Package confine is what every process that enters a box applies to itself before it runs anything a user controls:
// its cgroup, session, resource limits, uid, capabilities, no_new_privs, Landlock and seccomp, in this order.
//
// A [Spec] is the one description of it. It is built by the daemon, travels as bytes, and is applied by [Apply] on a
// locked thread that then executes the program. Nothing in it can be loosened later: a filter stays for life.
//
// # To allow a system call
//
// Add its number to the list in syscalls.go (or syscalls_<arch>.go when only some architectures have it), say there
// who needs it, and run the import matrix and the attack probes: both must stay green.
package confine
