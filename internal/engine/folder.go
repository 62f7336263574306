// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"glovebox/internal/sandbox"
)

// folder is the place of one execution while it runs. Its files are made when there is something to write.
type folder struct {
	store *Store
	id    sandbox.ID
	root  *os.Root

	mu        sync.Mutex
	files     []*os.File
	artifacts *os.Root
	gone      bool // moved or removed
}

// create makes the place of a new execution: a disk that cannot be written is found before anything runs.
func (s *Store) create(id sandbox.ID) (*folder, error) {
	s.hold(id)
	if err := s.root.Mkdir(string(id), 0o700); err != nil {
		s.letGo(id)
		return nil, err
	}
	f := &folder{store: s, id: id}
	var err error
	if f.root, err = s.root.OpenRoot(string(id)); err != nil {
		return nil, errors.Join(err, f.close(), f.discard())
	}
	return f, nil
}

// file returns a function that makes the file of a stream.
func (f *folder) file(name string) func() (*os.File, error) {
	return func() (*os.File, error) {
		file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.files = append(f.files, file)
		return file, nil
	}
}

// forArtifacts makes the folder for the files that the code left.
func (f *folder) forArtifacts() (*os.Root, error) {
	if err := f.root.Mkdir(artifactsName, 0o700); err != nil {
		return nil, err
	}
	var err error
	f.artifacts, err = f.root.OpenRoot(artifactsName)
	return f.artifacts, err
}

// keep keeps the record of a run that is over, and first its files. What has none leaves no trace but the record.
func (f *folder) keep(ctx context.Context, x *Execution, source string) error {
	stored := storedBytes(x)
	if f.store.Database == nil {
		return f.store.put(ctx, x, x.Status, stored, source)
	}
	if stored == 0 {
		if err := f.discard(); err != nil {
			return err
		}
		return f.store.put(ctx, x, x.Status, 0, source)
	}
	if len(x.Artifacts) == 0 && f.artifacts != nil {
		if err := f.root.RemoveAll(artifactsName); err != nil {
			return err
		}
	}
	spooled := filepath.Join(f.store.Spool, string(f.id))
	if err := f.store.Blobs.Take(ctx, spooled, x.Tenant, string(f.id)); err != nil {
		return err
	}
	f.gone = true
	return f.store.put(ctx, x, x.Status, stored, source)
}

// storedBytes is how much of an execution is in files.
func storedBytes(x *Execution) int64 {
	stored := x.Output.Stdout.Kept + x.Output.Stderr.Kept
	if x.Background != nil {
		stored += x.Background.Kept
	}
	for _, a := range x.Artifacts {
		stored += a.Size
	}
	return stored
}

// discard removes what is in the spool.
func (f *folder) discard() error {
	err := f.store.root.RemoveAll(string(f.id))
	f.gone = err == nil
	return err
}

func (f *folder) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, file := range f.files {
		errs = append(errs, file.Close())
	}
	for _, root := range []*os.Root{f.artifacts, f.root} {
		if root != nil {
			errs = append(errs, root.Close())
		}
	}
	if f.store.Database != nil && !f.gone {
		errs = append(errs, f.discard()) // what could not be kept
	}
	f.store.letGo(f.id)
	return errors.Join(errs...)
}
