// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/sandbox"
)

// Names in the folder of an execution.
const (
	recordName    = "record.json"
	artifactsName = "artifacts"
)

// Retention says how long records are kept; zero of either is refused by New.
type Retention struct {
	Count int
	Age   time.Duration
}

// pruneEvery is after how many executions old ones are looked for.
const pruneEvery = 16

// Store keeps executions in a folder, one folder each:
//
//	ID/record.json        the Execution
//	ID/stdout, ID/stderr  what was printed, from its beginning
//	ID/background         what earlier cells printed meanwhile, when there is any
//	ID/artifacts/0000     the files, named by their place in the record
//
// Files are written beside their place and renamed. They are not synced: a record that a power failure takes is one of a
// run that the caller has seen end or whose server is gone.
type Store struct {
	root      *os.Root
	retention Retention
	now       func() time.Time

	mu       sync.Mutex
	finished int
	held     map[sandbox.ID]bool // not over, or being written: not to be pruned
}

// OpenStore opens the folder dir, making it when it is missing, and removes what is older than retention allows.
func OpenStore(dir string, retention Retention, now func() time.Time) (*Store, error) {
	if retention.Count <= 0 || retention.Age <= 0 {
		return nil, fmt.Errorf("retention of %d executions for %v: both must be above zero", retention.Count, retention.Age)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for executions: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder for executions: %w", err)
	}
	s := &Store{root: root, retention: retention, now: now, held: make(map[sandbox.ID]bool)}
	if err := s.prune(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// Close releases the folder.
func (s *Store) Close() error { return s.root.Close() }

// folder is the place of one execution while it runs.
type folder struct {
	store     *Store
	id        sandbox.ID
	root      *os.Root
	artifacts *os.Root
	stdout    *os.File
	stderr    *os.File
	late      *os.File // nil until there is background output
}

// create makes the place of a new execution.
func (s *Store) create(id sandbox.ID) (*folder, error) {
	s.hold(id)
	if err := s.root.Mkdir(string(id), 0o700); err != nil {
		s.letGo(id)
		return nil, err
	}
	f := &folder{store: s, id: id}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.close(), s.remove(id))
	}
	return f, nil
}

func (f *folder) open() (err error) {
	if f.root, err = f.store.root.OpenRoot(string(f.id)); err != nil {
		return err
	}
	if err = f.root.Mkdir(artifactsName, 0o700); err != nil {
		return err
	}
	if f.artifacts, err = f.root.OpenRoot(artifactsName); err != nil {
		return err
	}
	if f.stdout, err = f.create("stdout"); err != nil {
		return err
	}
	f.stderr, err = f.create("stderr")
	return err
}

func (f *folder) create(name string) (*os.File, error) {
	return f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

// background makes the file for what earlier cells print.
func (f *folder) background() (_ *os.File, err error) {
	f.late, err = f.create(backgroundName)
	return f.late, err
}

// save writes the record; it may be called again.
func (f *folder) save(x *Execution) error {
	const partial = recordName + ".partial"
	file, err := f.root.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(json.NewEncoder(file).Encode(x), file.Close())
	if err == nil {
		err = f.root.Rename(partial, recordName)
	}
	if err != nil {
		return errors.Join(err, f.root.RemoveAll(partial))
	}
	return nil
}

func (f *folder) close() error {
	var errs []error
	for _, closer := range []io.Closer{f.stdout, f.stderr, f.late, f.artifacts, f.root} {
		switch c := closer.(type) {
		case *os.File:
			if c != nil {
				errs = append(errs, c.Close())
			}
		case *os.Root:
			if c != nil {
				errs = append(errs, c.Close())
			}
		}
	}
	f.store.letGo(f.id)
	return errors.Join(errs...)
}

func (s *Store) hold(id sandbox.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[id] = true
}

func (s *Store) letGo(id sandbox.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, id)
}

// ended counts an execution and now and then prunes.
func (s *Store) ended() error {
	s.mu.Lock()
	s.finished++
	due := s.finished%pruneEvery == 0
	s.mu.Unlock()
	if due {
		return s.prune()
	}
	return nil
}

// prune removes executions beyond the retention, and folders without a record, which a crash left.
func (s *Store) prune() error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("list executions: %w", err)
	}
	type kept struct {
		id   sandbox.ID
		time time.Time
	}
	var all []kept
	var errs []error
	for _, entry := range entries {
		id := sandbox.ID(entry.Name())
		s.mu.Lock()
		held := s.held[id]
		s.mu.Unlock()
		if held || !id.Valid() || !entry.IsDir() {
			continue
		}
		stat, err := s.root.Stat(string(id) + "/" + recordName)
		if err != nil || s.now().Sub(stat.ModTime()) > s.retention.Age {
			errs = append(errs, s.remove(id))
			continue
		}
		all = append(all, kept{id, stat.ModTime()})
	}
	slices.SortFunc(all, func(a, b kept) int { return b.time.Compare(a.time) })
	for i := s.retention.Count; i < len(all); i++ {
		errs = append(errs, s.remove(all[i].id))
	}
	return errors.Join(errs...)
}

func (s *Store) remove(id sandbox.ID) error { return s.root.RemoveAll(string(id)) }

// openFile opens a file of an execution; the caller closes it.
func (s *Store) openFile(id sandbox.ID, name string) (*os.File, error) {
	if !id.Valid() {
		return nil, noExecution(id)
	}
	file, err := s.root.Open(string(id) + "/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noExecution(id)
	}
	return file, err
}

// noExecution is said of what never was and of what is another tenant's.
func noExecution(id sandbox.ID) error {
	return notFound(fmt.Sprintf("there is no execution %q: it never was, it was deleted, or its time is over", clip(string(id), sandbox.MaxID)))
}

// load reads the record of a tenant's execution.
func (s *Store) load(tenant string, id sandbox.ID) (*Execution, error) {
	file, err := s.openFile(id, recordName)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	x := &Execution{}
	if err := json.NewDecoder(file).Decode(x); err != nil {
		return nil, fmt.Errorf("read the record of %s: %w", id, err)
	}
	if x.Tenant != tenant {
		return nil, noExecution(id)
	}
	return x, nil
}

// openArtifact opens the artifact of that name.
func (s *Store) openArtifact(tenant string, id sandbox.ID, name string) (*os.File, artifact.Artifact, error) {
	x, err := s.load(tenant, id)
	if err != nil {
		return nil, artifact.Artifact{}, err
	}
	for i, a := range x.Artifacts {
		if a.Name == name {
			file, err := s.openFile(id, artifactsName+"/"+artifact.FileName(i))
			return file, a, err
		}
	}
	return nil, artifact.Artifact{}, notFound(fmt.Sprintf("execution %s has no artifact %q", id, clip(name, 100)))
}
