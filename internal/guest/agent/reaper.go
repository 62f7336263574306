// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// reaper collects every dead child: those that were started here and the orphans that PID 1 inherits. It is the only
// caller of wait in this process.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]chan unix.WaitStatus
}

// newReaper also ignores every other signal, so that none ends this process: PID 1 is protected only from signals it
// has no handler for, and the Go runtime handles many. What it starts gets the usual ones back (package confine).
func newReaper() *reaper {
	r := &reaper{waiting: make(map[int]chan unix.WaitStatus)}
	signal.Ignore()
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	go func() {
		for range children {
			r.reap()
		}
	}()
	return r
}

// start calls fork and returns where its status will arrive.
func (r *reaper) start(fork func() (int, error)) (int, <-chan unix.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	status := make(chan unix.WaitStatus, 1)
	r.waiting[pid] = status
	return pid, status, nil
}

func (r *reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if err == unix.EINTR { //nolint:errorlint // a plain errno
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if waiting, ours := r.waiting[pid]; ours {
			delete(r.waiting, pid)
			waiting <- status
		}
	}
}
