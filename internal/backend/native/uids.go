// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/keeper"
)

const (
	// firstUID is the first host uid that boxes use: far above what distributions and subuid files hand out.
	firstUID = 1 << 30
	// maxRanges bounds how many daemons can share a host.
	maxRanges = 256
	// rootlessRange is how many uids a daemon of a usual user takes: such a user has few.
	rootlessRange = 4096
)

// uidSpace are the uids that daemons share, in equal ranges. One of a single uid has no ranges: all share that uid.
type uidSpace struct{ first, size, ranges int }

func spaceOf(namespace int) uidSpace {
	switch {
	case namespace == 0:
		return uidSpace{first: firstUID, size: keeper.RangeSize, ranges: maxRanges}
	case namespace > rootlessRange:
		return uidSpace{first: 1, size: rootlessRange, ranges: min(maxRanges, (namespace-1)/rootlessRange)}
	default:
		return uidSpace{first: 0, size: 1, ranges: maxRanges}
	}
}

// single reports whether sandboxes cannot have uids of their own.
func (s uidSpace) single() bool { return s.size == 1 }

// slots is how many boxes can be alive at once in one range.
func (s uidSpace) slots() int {
	if s.single() {
		return keeper.MaxSlots
	}
	return keeper.SlotsOf(s.size)
}

// uidRange is a block of host uids that one daemon holds, by a lock that ends with it. Its name also names the daemon's
// control groups and folders, so that what stands under an unlocked name was left by a dead one.
type uidRange struct {
	number int
	label  string
	lock   *os.File
	folder *os.File // the lock of the folder of this name, see leftovers.go
	space  uidSpace
}

func (r *uidRange) name() string { return r.label }

// first is the host uid that the keeper's user namespace calls 0.
func (r *uidRange) first() int {
	if r.space.single() {
		return r.space.first
	}
	return r.space.first + r.number*r.space.size
}

// rootOf and userOf are the uids of a slot's guest and of its programs, in this process's namespace.
func (r *uidRange) rootOf(slot int) int {
	if r.space.single() {
		return r.space.first
	}
	return r.first() + keeper.RootOf(slot)
}

func (r *uidRange) userOf(slot int) int {
	if r.space.single() {
		return r.space.first
	}
	return r.first() + keeper.UserOf(slot)
}

func (r *uidRange) release() error {
	if r.folder != nil {
		_ = r.folder.Close() // it was only read
	}
	return r.lock.Close()
}

func takeRange(dir string, space uidSpace) (*uidRange, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the runtime folder: %w", err)
	}
	for number := range space.ranges {
		label := rangeName(dir, number)
		lock, err := lockRange(dir, label)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			return &uidRange{number: number, label: label, lock: lock, space: space}, nil
		}
	}
	return nil, fmt.Errorf("all %d uid ranges in %s are in use by other daemons", space.ranges, dir)
}

// lockRange returns nil when somebody else holds it.
func lockRange(dir, name string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of a uid range: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, file.Close()
	}
	return nil, errors.Join(fmt.Errorf("lock a uid range: %w", err), file.Close())
}

// rangeName names a range: r0, r1 ... with a mark of the folder its lock is in. Control groups are the host's, locks a
// folder's: without the mark, daemons with other folders would take each other's living sandboxes for leftovers.
func rangeName(dir string, number int) string {
	mark := fnv.New32a()
	_, _ = mark.Write([]byte(filepath.Clean(dir))) // never fails
	return fmt.Sprintf("r%dx%08x", number, mark.Sum32())
}

func validRange(dir, name string) bool {
	for number := range maxRanges {
		if rangeName(dir, number) == name {
			return true
		}
	}
	return false
}

// slots are the blocks of uids within the range, one a living box.
type slots struct {
	most int
	used map[int]bool
	last int
}

// take returns a free slot, not the one that was given back last: what the kernel still tears down must not meet a new
// box of the same uids.
func (s *slots) take() (int, error) {
	if s.used == nil {
		s.used = make(map[int]bool)
	}
	for range s.most {
		s.last = s.last%s.most + 1
		if !s.used[s.last] {
			s.used[s.last] = true
			return s.last, nil
		}
	}
	return 0, fmt.Errorf("%d sandboxes are alive: more cannot have uids of their own", s.most)
}

func (s *slots) give(slot int) { delete(s.used, slot) }
