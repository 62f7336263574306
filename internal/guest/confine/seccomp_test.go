// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// call is the part of struct seccomp_data that filters look at.
type call struct {
	arch, number uint32
	args         [6]uint32
}

// evaluate runs a filter as the kernel would, for the instructions that the compiler emits.
func evaluate(t *testing.T, program []Instruction, c call) uint32 {
	t.Helper()
	var accumulator uint32
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		switch in.Code {
		case opLoad:
			switch in.K {
			case offsetNumber:
				accumulator = c.number
			case offsetArch:
				accumulator = c.arch
			default:
				accumulator = c.args[(in.K-offsetArgs)/8]
			}
		case opAnd:
			accumulator &= in.K
		case opJump:
			pc += int(in.K)
		case opEqual:
			pc += jump(in, accumulator == in.K)
		case opAtMost:
			pc += jump(in, accumulator >= in.K)
		case opReturn:
			return in.K
		default:
			t.Fatalf("instruction %d has unknown code %#x", pc, in.Code)
		}
	}
	t.Fatal("the program ran past its end")
	return 0
}

func jump(in Instruction, taken bool) int {
	if taken {
		return int(in.JT)
	}
	return int(in.JF)
}

// TestFilterMatchesTheTable: for every number, listed or not, the compiled program says what the table says.
func TestFilterMatchesTheTable(t *testing.T) {
	t.Parallel()
	program, calls := CompileFilter(), userCalls()
	for number := range uint32(1200) {
		want := actionUnknown
		c, listed := calls[number]
		if listed && c.arg != nil {
			continue // TestJudgedCalls
		}
		if listed {
			want = c.action
		}
		if got := evaluate(t, program, call{arch: auditArch, number: number}); got != want {
			t.Errorf("call %d: got %#x, want %#x", number, got, want)
		}
	}
}

// TestForeignArchitecture: numbers of another system-call table, and x32 numbers of this one, are never judged by this
// table.
func TestForeignArchitecture(t *testing.T) {
	t.Parallel()
	program := CompileFilter()
	const x32 = 0x40000000
	for number := range uint32(500) {
		if got := evaluate(t, program, call{arch: unix.AUDIT_ARCH_I386, number: number}); got != actionUnknown {
			t.Errorf("i386 call %d: %#x", number, got)
		}
		if got := evaluate(t, program, call{arch: auditArch, number: x32 | number}); got != actionUnknown {
			t.Errorf("x32 call %d: %#x", number, got)
		}
	}
}

// TestJudgedCalls: what is allowed by its arguments, and what is not.
func TestJudgedCalls(t *testing.T) {
	t.Parallel()
	const errnoMask = 0xffff0000
	program := CompileFilter()
	cases := []struct {
		name    string
		number  uint32
		args    [6]uint32
		allowed bool
	}{
		{"plain fork", unix.SYS_CLONE, [6]uint32{uint32(unix.SIGCHLD)}, true},
		{"thread", unix.SYS_CLONE, [6]uint32{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, true},
		{"fork into a user namespace", unix.SYS_CLONE, [6]uint32{unix.CLONE_NEWUSER}, false},
		{"fork into a mount namespace", unix.SYS_CLONE, [6]uint32{unix.CLONE_NEWNS | uint32(unix.SIGCHLD)}, false},
		{"unix socket", unix.SYS_SOCKET, [6]uint32{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, true},
		{"tcp socket", unix.SYS_SOCKET, [6]uint32{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_NONBLOCK}, true},
		{"tcp socket by name", unix.SYS_SOCKET, [6]uint32{unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP}, true},
		{"sctp socket", unix.SYS_SOCKET, [6]uint32{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, false},
		{"mptcp socket", unix.SYS_SOCKET, [6]uint32{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, false},
		{"ping socket", unix.SYS_SOCKET, [6]uint32{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, false},
		{"fork as a sibling", unix.SYS_CLONE, [6]uint32{unix.CLONE_PARENT | uint32(unix.SIGCHLD)}, false},
		{"memory", unix.SYS_MMAP, [6]uint32{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, true},
		{"huge pages", unix.SYS_MMAP, [6]uint32{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_HUGETLB}, false},
		{"huge pages in a file", unix.SYS_MEMFD_CREATE, [6]uint32{0, unix.MFD_CLOEXEC | unix.MFD_HUGETLB}, false},
		{"huge pages to share", unix.SYS_SHMGET, [6]uint32{0, 4096, 0o1600 | shmHugeTLB}, false},
		{"memory to share", unix.SYS_SHMGET, [6]uint32{0, 4096, 0o1600}, true},
		{"raw socket", unix.SYS_SOCKET, [6]uint32{unix.AF_INET, unix.SOCK_RAW}, false},
		{"packet socket", unix.SYS_SOCKET, [6]uint32{unix.AF_PACKET, unix.SOCK_RAW}, false},
		{"netlink socket", unix.SYS_SOCKET, [6]uint32{unix.AF_NETLINK, unix.SOCK_RAW}, false},
		{"vsock socket", unix.SYS_SOCKET, [6]uint32{unix.AF_VSOCK, unix.SOCK_STREAM}, false},
		{"crypto socket", unix.SYS_SOCKET, [6]uint32{unix.AF_ALG, unix.SOCK_SEQPACKET}, false},
		{"unix pair", unix.SYS_SOCKETPAIR, [6]uint32{unix.AF_UNIX, unix.SOCK_DGRAM}, true},
		{"other pair", unix.SYS_SOCKETPAIR, [6]uint32{unix.AF_TIPC, unix.SOCK_DGRAM}, false},
		{"fifo", unix.SYS_MKNODAT, [6]uint32{0, 0, unix.S_IFIFO | 0o600}, true},
		{"character device", unix.SYS_MKNODAT, [6]uint32{0, 0, unix.S_IFCHR | 0o600}, false},
		{"block device", unix.SYS_MKNODAT, [6]uint32{0, 0, unix.S_IFBLK | 0o600}, false},
		{"terminal size", unix.SYS_IOCTL, [6]uint32{0, unix.TIOCGWINSZ}, true},
		{"terminal input", unix.SYS_IOCTL, [6]uint32{0, unix.TIOCSTI}, false},
		{"line discipline", unix.SYS_IOCTL, [6]uint32{0, unix.TIOCSETD}, false},
		{"name a thread", unix.SYS_PRCTL, [6]uint32{unix.PR_SET_NAME}, true},
		{"another filter", unix.SYS_PRCTL, [6]uint32{unix.PR_SET_SECCOMP}, false},
		{"ask for the personality", unix.SYS_PERSONALITY, [6]uint32{^uint32(0)}, true},
		{"no address randomisation", unix.SYS_PERSONALITY, [6]uint32{0x0040000}, false},
	}
	for _, c := range cases {
		got := evaluate(t, program, call{arch: auditArch, number: c.number, args: c.args})
		if allowed := got == actionAllow; allowed != c.allowed {
			t.Errorf("%s: got %#x, allowed should be %v", c.name, got, c.allowed)
		}
		if got != actionAllow && got&errnoMask != unix.SECCOMP_RET_ERRNO {
			t.Errorf("%s: refused with %#x, not with an error number", c.name, got)
		}
	}
}

// TestNothingDangerousIsAllowed: the kernel entry points that must never be reachable, by number.
func TestNothingDangerousIsAllowed(t *testing.T) {
	t.Parallel()
	program := CompileFilter()
	for _, number := range append(refused(), unix.SYS_CLONE3, unix.SYS_EXECVEAT) {
		if got := evaluate(t, program, call{arch: auditArch, number: number}); got == actionAllow {
			t.Errorf("call %d is allowed", number)
		}
	}
}

// TestFilterFits: the kernel takes at most BPF_MAXINSNS instructions, and the same input gives the same program.
func TestFilterFits(t *testing.T) {
	t.Parallel()
	for _, program := range [][]Instruction{CompileFilter(), CompileGuestFilter()} {
		if len(program) > unix.BPF_MAXINSNS {
			t.Errorf("%d instructions", len(program))
		}
	}
	if !slices.Equal(CompileFilter(), CompileFilter()) {
		t.Error("two compilations differ")
	}
	t.Logf("%d instructions for programs, %d for the guest", len(CompileFilter()), len(CompileGuestFilter()))
}

// TestTablesDoNotOverlap: a call stands in one list only, so that reading one list tells the truth.
func TestTablesDoNotOverlap(t *testing.T) {
	t.Parallel()
	seen := make(map[uint32]string)
	for name, list := range map[string][]uint32{
		"allowed": allowed(), "allowedHere": allowedHere(), "refused": refused(), "refusedHere": refusedHere(),
	} {
		for _, number := range list {
			if other, twice := seen[number]; twice {
				t.Errorf("call %d stands in %s and %s", number, other, name)
			}
			seen[number] = name
		}
	}
	for number := range judged() {
		if other, twice := seen[number]; twice {
			t.Errorf("call %d is judged and stands in %s", number, other)
		}
	}
}
