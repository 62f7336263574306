// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"glovebox/internal/sandbox"
)

// A daemon's boxes have groups, which are the host's, and folders, which are in its data folder; both stand under the
// name of the daemon's uid range. Two locks say whose they are: that of the range, in the runtime folder that all
// daemons of the host share, is for the groups; the folder's own is for what is in the folder, since the range may have
// gone to a daemon with another data folder meanwhile.

// folder is where the boxes of a range have their uploads.
func (b *Backend) folder(name string) string { return filepath.Join(b.config.StateDir, name) }

// takeOver locks the folder of a range that was taken, and removes what an earlier daemon left under its name.
func (b *Backend) takeOver(taken *uidRange) (err error) {
	if taken.folder, err = lockFolder(b.folder(taken.name())); err != nil {
		return fmt.Errorf("lock the folder of a uid range: %w", err)
	}
	groups, err := b.cgroups.List(taken.name())
	if err != nil {
		return err
	}
	folders, err := entries(b.folder(taken.name()))
	if err != nil {
		return err
	}
	for _, id := range groups {
		if err := b.removeGroup(taken.name(), id); err != nil {
			return fmt.Errorf("remove what an earlier daemon left: %w", err)
		}
	}
	for _, id := range folders {
		if err := os.RemoveAll(filepath.Join(b.folder(taken.name()), id)); err != nil {
			return fmt.Errorf("remove what an earlier daemon left: %w", err)
		}
	}
	return nil
}

// Leftovers yields what dead daemons left: the groups under ranges that nobody holds, and the folders that nobody does.
// Where nothing is left the group and the folder of the range itself are removed.
func (b *Backend) Leftovers(context.Context) iter.Seq2[sandbox.Handle, error] {
	return func(yield func(sandbox.Handle, error) bool) {
		groups, err := b.cgroups.List("")
		folders, foldersErr := entries(b.config.StateDir)
		if err := errors.Join(err, foldersErr); err != nil {
			yield(sandbox.Handle{}, err)
			return
		}
		names := append(groups, folders...)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if !validRange(b.config.RuntimeDir, name) {
				continue // of a daemon with another runtime folder
			}
			ids, err := b.leftUnder(name)
			if err != nil && !yield(sandbox.Handle{}, err) {
				return
			}
			for _, id := range ids {
				if !yield(sandbox.Handle{Backend: Name, ID: sandbox.ID(id), Owner: name}, nil) {
					return
				}
			}
		}
	}
}

// leftUnder lists what is left under the name of a range.
func (b *Backend) leftUnder(name string) (ids []string, err error) {
	err = b.whereNobodyIs(name, func() error {
		groups, err := b.cgroups.List(name)
		if err == nil && len(groups) == 0 {
			err = b.cgroups.Open(name).Remove()
		}
		ids = append(ids, groups...)
		return err
	}, func() error {
		folders, err := entries(b.folder(name))
		if err == nil && len(folders) == 0 {
			err = removeIfEmpty(b.folder(name))
		}
		ids = append(ids, folders...)
		return err
	})
	slices.Sort(ids)
	return slices.Compact(ids), err
}

// whereNobodyIs calls groups if no living daemon holds the range, and folder if none uses its folder, with the locks held.
func (b *Backend) whereNobodyIs(name string, groups, folder func() error) error {
	lock, err := lockRange(b.config.RuntimeDir, name)
	if err != nil {
		return err
	}
	if lock != nil {
		defer lock.Close()
		err = groups()
	}
	own, lockErr := tryFolder(b.folder(name))
	if own != nil {
		defer own.Close()
		err = errors.Join(err, folder())
	}
	return errors.Join(err, lockErr)
}

// Reclaim destroys a leftover.
func (b *Backend) Reclaim(_ context.Context, handle sandbox.Handle) error {
	if !handle.ID.Valid() || !validRange(b.config.RuntimeDir, handle.Owner) {
		return fmt.Errorf("native: %q of %q is not a sandbox of ours", handle.ID, handle.Owner)
	}
	free := false
	err := b.whereNobodyIs(handle.Owner, func() error {
		free = true
		return b.removeGroup(handle.Owner, string(handle.ID))
	}, func() error {
		free = true
		return os.RemoveAll(filepath.Join(b.folder(handle.Owner), string(handle.ID)))
	})
	if err == nil && !free {
		return fmt.Errorf("native: sandbox %s belongs to a living daemon", handle.ID)
	}
	if err == nil {
		_, err = b.leftUnder(handle.Owner) // which removes what is empty now
	}
	return err
}

func (b *Backend) removeGroup(owner, id string) error {
	return endGroup(b.cgroups.Open(filepath.Join(owner, id)))
}

// lockFolder makes a folder and locks it. One that was removed before it was locked is made again.
func lockFolder(path string) (*os.File, error) {
	for {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
		folder, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(folder.Fd()), unix.LOCK_EX); err != nil && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, folder.Close())
		} else if err == nil && isStill(path, folder) {
			return folder, nil
		}
		_ = folder.Close() // it was only read
	}
}

func isStill(path string, folder *os.File) bool {
	locked, err := folder.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(path)
	return err == nil && os.SameFile(locked, now)
}

// tryFolder locks a folder, or returns nil when it is not there or somebody holds it.
func tryFolder(path string) (*os.File, error) {
	folder, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // not there: no error
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && isStill(path, folder) {
		return folder, nil
	}
	if err == nil || errors.Is(err, unix.EWOULDBLOCK) {
		return nil, folder.Close()
	}
	return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, folder.Close())
}

// entries lists the names in a folder; one that is not there has none.
func entries(path string) ([]string, error) {
	found, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range found {
		names = append(names, entry.Name())
	}
	return names, nil
}

func removeIfEmpty(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
