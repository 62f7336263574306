// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// RunFolder makes a folder for one run that keeps nothing, in the data folder, and removes those that killed runs left.
// The folder is locked until remove is called.
//
// The lock of the parent keeps the two apart: a folder is made and locked under a shared lock, and stale ones are found
// under an exclusive one.
func RunFolder(data string) (path string, remove func() error, err error) {
	if err := dataFolder(data); err != nil {
		return "", nil, err
	}
	runs := filepath.Join(data, "runs")
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return "", nil, storageProblem(data, err)
	}
	guard, err := os.Open(runs)
	if err != nil {
		return "", nil, storageProblem(data, err)
	}
	defer guard.Close() // which unlocks it
	sweepRuns(guard)
	if err := flock(guard, unix.LOCK_SH); err != nil {
		return "", nil, storageProblem(data, err)
	}
	path, err = os.MkdirTemp(runs, "run-*")
	if err != nil {
		return "", nil, storageProblem(data, err)
	}
	handle, err := lockFolder(path)
	if err != nil {
		return "", nil, storageProblem(data, errors.Join(err, os.RemoveAll(path)))
	}
	return path, func() error { return errors.Join(os.RemoveAll(path), handle.Close()) }, nil
}

// SweepRuns removes the folders that killed runs left.
func SweepRuns(data string) error {
	guard, err := os.Open(filepath.Join(data, "runs"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return storageProblem(data, err)
	}
	defer guard.Close() // which unlocks it
	sweepRuns(guard)
	return nil
}

// sweepRuns removes the folders that nobody holds. What it cannot do the next run does.
func sweepRuns(guard *os.File) {
	if flock(guard, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	entries, err := os.ReadDir(guard.Name())
	if err != nil {
		return
	}
	var stale []*os.File
	for _, entry := range entries {
		if handle, err := lockFolder(filepath.Join(guard.Name(), entry.Name())); err == nil {
			stale = append(stale, handle)
		}
	}
	_ = flock(guard, unix.LOCK_UN) // the stale ones are ours: others need not wait for their removal
	for _, handle := range stale {
		_ = os.RemoveAll(handle.Name())
		_ = handle.Close()
	}
}

func lockFolder(path string) (*os.File, error) {
	handle, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := flock(handle, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, handle.Close())
	}
	return handle, nil
}

func flock(handle *os.File, how int) error {
	for {
		err := unix.Flock(int(handle.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
