// SPDX-License-Identifier: Apache-2.0

package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

func allowedHere() []uint32 {
	return []uint32{unix.SYS_NEWFSTATAT, unix.SYS_RENAMEAT, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT}
}

func refusedHere() []uint32 { return []uint32{unix.SYS_KEXEC_FILE_LOAD} }

func judgedHere([]uint32) map[uint32]argCheck { return nil }
