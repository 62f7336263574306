// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Instruction is one instruction of classic BPF, in the layout of struct sock_filter.
type Instruction struct {
	Code uint16 `json:"c"`
	JT   uint8  `json:"t,omitempty"`
	JF   uint8  `json:"f,omitempty"`
	K    uint32 `json:"k,omitempty"`
}

// Offsets in struct seccomp_data (linux/seccomp.h). Arguments are 64 bit, little endian on the architectures we have.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	opLoad   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opAnd    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	opJump   = unix.BPF_JMP | unix.BPF_JA
	opEqual  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opAtMost = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opReturn = unix.BPF_RET | unix.BPF_K
)

const (
	actionAllow = unix.SECCOMP_RET_ALLOW
	// A call that this filter does not know gets ENOSYS, so that libraries take their older path.
	actionUnknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	// A call that is known and refused says so.
	actionRefuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// A call that is answered as done without doing it.
	actionIgnore = unix.SECCOMP_RET_ERRNO
)

// check is what happens for one system call: either a fixed action, or a look at one argument.
type check struct {
	action uint32
	arg    *argCheck
}

// argCheck gives match when (argument & mask) is one of values, and otherwise the other action. Only the low 32 bits of
// the argument are looked at: every argument judged here is a C int or the low word of flags.
type argCheck struct {
	index     uint32
	mask      uint32
	values    []uint32
	match     uint32
	otherwise uint32
	// second, if set, is judged in place of match.
	second *argCheck
}

// CompileFilter returns the filter for confined programs on this architecture. The same input gives the same bytes.
func CompileFilter() []Instruction { return compile(auditArch, userCalls()) }

// CompileGuestFilter returns the filter for the guest itself, a superset: it must still confine what it starts.
func CompileGuestFilter() []Instruction {
	calls := userCalls()
	for _, number := range guestCalls() {
		calls[number] = check{action: actionAllow}
	}
	return compile(auditArch, calls)
}

func compile(arch uint32, calls map[uint32]check) []Instruction {
	numbers := make([]uint32, 0, len(calls))
	for number := range calls {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	program := []Instruction{
		{Code: opLoad, K: offsetArch},
		{Code: opEqual, JT: 1, K: arch},
		{Code: opReturn, K: actionUnknown},
		{Code: opLoad, K: offsetNumber},
	}
	return append(program, search(ranges(numbers, calls))...)
}

// span is a run of neighbouring numbers with the same action, up to the next span's first number.
type span struct {
	first uint32
	check check
}

// ranges covers all numbers: what no call claims is unknown. Numbers with the x32 bit lie above every call.
func ranges(numbers []uint32, calls map[uint32]check) []span {
	spans := []span{{0, check{action: actionUnknown}}}
	add := func(first uint32, c check) {
		last := &spans[len(spans)-1]
		switch {
		case last.first == first:
			last.check = c
		case last.check.arg == nil && c.arg == nil && last.check.action == c.action:
		default:
			spans = append(spans, span{first, c})
		}
	}
	for i, number := range numbers {
		add(number, calls[number])
		if i+1 == len(numbers) || numbers[i+1] != number+1 {
			add(number+1, check{action: actionUnknown})
		}
	}
	return spans
}

// search emits a binary search over the spans; it ends in a return on every path.
func search(spans []span) []Instruction {
	if len(spans) == 1 {
		return leaf(spans[0].check)
	}
	middle := len(spans) / 2
	left, right := search(spans[:middle]), search(spans[middle:])
	program := []Instruction{
		{Code: opAtMost, JF: 1, K: spans[middle].first},
		{Code: opJump, K: uint32(len(left))}, //nolint:gosec // a program has at most 4096 instructions
	}
	return append(append(program, left...), right...)
}

func leaf(c check) []Instruction {
	if c.arg == nil {
		return []Instruction{{Code: opReturn, K: c.action}}
	}
	return argLeaf(c.arg)
}

func argLeaf(a *argCheck) []Instruction {
	good := []Instruction{{Code: opReturn, K: a.match}}
	if a.second != nil {
		good = argLeaf(a.second)
	}
	program := []Instruction{{Code: opLoad, K: offsetArgs + 8*a.index}, {Code: opAnd, K: a.mask}}
	for i, value := range a.values {
		// On a match jump over the remaining comparisons and the refusal.
		program = append(program, Instruction{Code: opEqual, JT: uint8(len(a.values) - i), K: value}) //nolint:gosec // few values
	}
	program = append(program, Instruction{Code: opReturn, K: a.otherwise})
	return append(program, good...)
}
