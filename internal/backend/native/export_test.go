// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"glovebox/internal/cgroup"
)

// KillKeeper kills the backend's keeper, as an operator or the kernel might.
func KillKeeper(b *Backend) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keeper == nil {
		return errors.New("no keeper runs")
	}
	return b.keeper.process.Kill()
}

// SignalZygotes sends a signal to every zygote.
func SignalZygotes(b *Backend, signal unix.Signal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, z := range b.zygotes {
		if err := unix.PidfdSendSignal(int(z.pidfd.Fd()), signal, nil, 0); err != nil {
			return err
		}
	}
	return nil
}

// KillZygotes kills every zygote and waits until it is gone.
func KillZygotes(b *Backend) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.zygotes) == 0 {
		return errors.New("no zygote runs")
	}
	for _, z := range b.zygotes {
		z.kill()
		<-z.gone
	}
	return nil
}

// CPUOfAll returns the processor time, in nanoseconds, of everything that the backend started in groups of its own, also
// of what has ended.
func CPUOfAll(b *Backend) (int64, error) {
	usage, err := b.cgroups.Open(b.lease.name()).CPU()
	return int64(usage), err
}

// CPUOfZygotes is the part of CPUOfAll that living zygotes used themselves, without what they forked.
func CPUOfZygotes(b *Backend) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum int64
	for _, z := range b.zygotes {
		usage, err := z.group.CPU()
		if err != nil {
			return 0, err
		}
		sum += int64(usage)
	}
	return sum, nil
}

// Groups lists the control groups of the backend's boxes and zygotes.
func Groups(b *Backend) ([]string, error) { return b.cgroups.List(b.lease.name()) }

// SlotsUsed is how many blocks of uids are taken.
func SlotsUsed(b *Backend) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.slots.used)
}

// ZygotesStarted is how many zygotes the backend has had.
func ZygotesStarted(b *Backend) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.zygoteCount
}

// RangeName is rangeName.
var RangeName = rangeName

// Weaken makes every box of the backend go without these layers, with a guest that was built for it. The name "cgroup"
// stands for all control groups.
func Weaken(b *Backend, guest *os.File, layers ...string) {
	_ = b.guest.Close()
	b.guest = guest
	for _, name := range layers {
		if name == "cgroup" {
			b.cgroups = b.cgroups.Without(cgroup.Memory, cgroup.CPU, cgroup.PIDs)
			continue
		}
		b.without = append(b.without, name)
	}
}
