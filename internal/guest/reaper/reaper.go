// SPDX-License-Identifier: Apache-2.0

// Package reaper collects every dead child of a first process: those that it started and the orphans it inherits. It is
// the only caller of wait in its process.
package reaper

import (
	"errors"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Reaper hands out the wait statuses of children.
type Reaper struct {
	orphan func(pid int, status unix.WaitStatus)

	mu      sync.Mutex
	waiting map[int]chan unix.WaitStatus
}

// New starts reaping. Children that were not started here are given to orphan, which must not wait; nil ignores them.
//
// It also makes the process ignore every other signal, so that none ends it: PID 1 is protected only from signals it
// has no handler for, and the Go runtime handles many. What it starts gets the usual ones back (package confine).
func New(orphan func(pid int, status unix.WaitStatus)) *Reaper {
	r := &Reaper{orphan: orphan, waiting: make(map[int]chan unix.WaitStatus)}
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

// Start calls fork and returns where the child's status will arrive.
func (r *Reaper) Start(fork func() (int, error)) (int, <-chan unix.WaitStatus, error) {
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

func (r *Reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if waiting, ours := r.waiting[pid]; ours {
			delete(r.waiting, pid)
			waiting <- status
		} else if r.orphan != nil {
			r.orphan(pid, status)
		}
	}
}
