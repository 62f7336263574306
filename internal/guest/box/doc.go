// SPDX-License-Identifier: Apache-2.0

// Package box builds the place that code runs in: namespaces, mounts and the guest's own privileges. [Build] runs as
// the first process of fresh user, pid, mount, network, ipc and uts namespaces and never again.
//
// Layout of a box, all mounts nosuid and nodev:
//
//	/            the image, read-only
//	/home/user   the workspace: tmpfs with a size and an inode quota
//	/etc         the image's, synthetic; with the strict profile nobody can read passwd and group
//	/tmp         tmpfs; noexec with the tight and the strict profile
//	/data        the uploads, read-only, on the host's disk and so not charged as memory
//	/dev         null zero full random urandom tty, a private pts, shm
//	/proc        processes of the box only: no /proc/sys, no kernel files
//	/run         tmpfs, small
//
// There is no /sys.
package box
