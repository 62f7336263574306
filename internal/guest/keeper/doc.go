// SPDX-License-Identifier: Apache-2.0

// Package keeper is the process between the daemon and the boxes of one trust domain. It is root of a user namespace
// with a range of uids of its own, and PID 1 of a pid namespace: when it ends, by itself, by a kill or because the
// daemon is gone, the kernel ends every box beneath it.
//
// It starts the first process of each box in fresh namespaces and reports how it ended. It never reads anything that
// comes out of a box.
package keeper
