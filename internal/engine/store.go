// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/auth"
	"glovebox/internal/sandbox"
	"glovebox/internal/store"
)

// artifactsName is the folder of the files that the code left, in that of an execution.
const artifactsName = "artifacts"

// Retention says how much is kept, and how long. OpenStore needs the first two; a store with a database needs all.
type Retention struct {
	// Count is how many executions are kept, of all tenants; Age how long, with what they printed and left.
	Count int
	Age   time.Duration
	// Code is for the code that was run, Events for who did what, Answers for answers to requests that may come again.
	Code, Events, Answers time.Duration
}

// StoreConfig is what a store needs that outlives the process. Every field is required.
type StoreConfig struct {
	// Spool is a folder of this process alone; what is in it is removed.
	Spool     string
	Database  *store.Store
	Blobs     *store.Blobs
	Retention Retention
	Now       func() time.Time
	Log       *slog.Logger
}

// Store keeps executions. While one runs its files are in a folder of the spool, each from the first byte on:
//
//	ID/stdout, ID/stderr  what was printed, from its beginning
//	ID/background         what earlier cells printed meanwhile
//	ID/artifacts/0000     the files, named by their place in the record
//
// At its end they are moved into the bucket, and then the record and the code go into the database, in one transaction: what
// has a record is whole. Removing goes the other way, so that what a crash leaves are files without a record, which Recover
// removes. Nothing is synced: a killed server loses nothing that it has answered, a power failure may.
//
// A store without a database is that of a single run: it keeps records in memory and files where they are.
type Store struct {
	StoreConfig
	root *os.Root

	mu   sync.Mutex
	held map[sandbox.ID]bool // not over, or being written: not to be swept
	// recent and order are the records where there is no database.
	recent map[sandbox.ID]*Execution
	order  []sandbox.ID
}

// OpenStore opens a store without a database in the folder dir, making it when it is missing.
func OpenStore(dir string, retention Retention, now func() time.Time) (*Store, error) {
	if retention.Count <= 0 || retention.Age <= 0 {
		return nil, fmt.Errorf("retention of %d executions for %v: both must be above zero", retention.Count, retention.Age)
	}
	return openStore(StoreConfig{Spool: dir, Retention: retention, Now: now, Log: slog.New(slog.DiscardHandler)})
}

// NewStore opens a store that outlives the process. It closes neither database nor bucket.
func NewStore(c StoreConfig) (*Store, error) {
	r := c.Retention
	if r.Count <= 0 || r.Age <= 0 || r.Code <= 0 || r.Events <= 0 || r.Answers <= 0 {
		return nil, errors.New("every retention must be above zero")
	}
	if c.Database == nil || c.Blobs == nil || c.Now == nil || c.Log == nil {
		return nil, errors.New("engine: a store needs Database, Blobs, Now and Log")
	}
	s, err := openStore(c)
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(s.root.FS(), ".")
	for _, entry := range entries {
		err = errors.Join(err, s.root.RemoveAll(entry.Name())) // of runs that a crash ended
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("empty the folder for running executions: %w", err), s.Close())
	}
	return s, nil
}

func openStore(c StoreConfig) (*Store, error) {
	if err := os.MkdirAll(c.Spool, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for executions: %w", err)
	}
	root, err := os.OpenRoot(c.Spool)
	if err != nil {
		return nil, fmt.Errorf("open the folder for executions: %w", err)
	}
	return &Store{StoreConfig: c, root: root, held: make(map[sandbox.ID]bool), recent: make(map[sandbox.ID]*Execution)}, nil
}

// Close releases the spool.
func (s *Store) Close() error { return s.root.Close() }

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

func (s *Store) holds(id sandbox.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[id]
}

// put keeps a record; source, if not empty, is its code. Status is what lists say.
func (s *Store) put(ctx context.Context, x *Execution, status Status, stored int64, source string) error {
	if s.Database == nil {
		return s.remember(x)
	}
	record, err := json.Marshal(x)
	if err != nil {
		return err
	}
	summary, err := json.Marshal(summaryOf(x))
	if err != nil {
		return err
	}
	return s.Database.PutExecution(ctx, store.Execution{
		ID: string(x.ID), Tenant: x.Tenant, Key: x.Key, Status: string(status), Created: x.Created, Record: record, Summary: summary, Stored: stored,
	}, source)
}

// remember keeps a copy of a record in memory, in the place of the oldest when there are too many.
func (s *Store) remember(x *Execution) error {
	kept := *x
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent[x.ID] == nil {
		s.order = append(s.order, x.ID)
	}
	s.recent[x.ID] = &kept
	if len(s.order) <= s.Retention.Count {
		return nil
	}
	oldest := s.order[0]
	s.order = s.order[1:]
	delete(s.recent, oldest)
	return s.root.RemoveAll(string(oldest))
}

// noExecution is said of what never was and of what is another tenant's.
func noExecution(id sandbox.ID) error {
	return notFound(fmt.Sprintf("there is no execution %q: it never was, it was deleted, or its time is over", clip(string(id), sandbox.MaxID)))
}

// load reads the record of a tenant's execution.
func (s *Store) load(tenant string, id sandbox.ID) (*Execution, error) {
	if !id.Valid() {
		return nil, noExecution(id)
	}
	if s.Database == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if x := s.recent[id]; x != nil && x.Tenant == tenant {
			found := *x
			return &found, nil
		}
		return nil, noExecution(id)
	}
	ctx, cancel := s.patience()
	defer cancel()
	row, err := s.Database.Execution(ctx, tenant, string(id))
	if err != nil {
		return nil, s.problem(id, err)
	}
	x := &Execution{}
	if err := json.Unmarshal(row.Record, x); err != nil {
		return nil, fmt.Errorf("read the record of %s: %w", id, err)
	}
	return x, nil
}

// databasePatience bounds a question to the database that has no caller's patience.
const databasePatience = 30 * time.Second

func (s *Store) patience() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), databasePatience, errors.New("the database did not answer in time"))
}

// problem is what a caller is told of an error of the database.
func (s *Store) problem(id sandbox.ID, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return noExecution(id)
	}
	s.Log.Error("the database failed", "id", id, "error", err)
	return &Problem{Code: CodeStorage, Err: err, Text: "the database cannot be used now: try again later"}
}

// open opens a file of an execution, wherever it is by now. The caller closes it.
func (s *Store) open(tenant string, id sandbox.ID, name string) (store.File, error) {
	file, err := s.root.Open(string(id) + "/" + name)
	switch {
	case err == nil:
		return file, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case s.Database == nil:
		return nil, store.ErrNotFound
	}
	return s.Blobs.Open(context.Background(), tenant, string(id), name)
}

// openArtifact opens the artifact of that name.
func (s *Store) openArtifact(tenant string, id sandbox.ID, name string) (store.File, artifact.Artifact, error) {
	x, err := s.load(tenant, id)
	if err != nil {
		return nil, artifact.Artifact{}, err
	}
	for i, a := range x.Artifacts {
		if a.Name == name {
			file, err := s.openKept(tenant, id, artifactsName+"/"+artifact.FileName(i), a.Size)
			return file, a, err
		}
	}
	return nil, artifact.Artifact{}, notFound(fmt.Sprintf("execution %s has no artifact %q", id, clip(name, 100)))
}

// openKept opens a file of which there are so many bytes. Of none there is no file.
func (s *Store) openKept(tenant string, id sandbox.ID, name string, size int64) (store.File, error) {
	if size == 0 {
		return emptyFile{bytes.NewReader(nil)}, nil
	}
	file, err := s.open(tenant, id, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noExecution(id) // it was deleted just now
	}
	return file, err
}

// emptyFile is a file without content.
type emptyFile struct{ io.ReadSeeker }

// Close does nothing.
func (emptyFile) Close() error { return nil }

// remove removes all that there is of an execution but events.
func (s *Store) remove(ctx context.Context, tenant string, id sandbox.ID, deletion store.Event) error {
	if !id.Valid() {
		return noExecution(id)
	}
	if s.Database == nil {
		if _, err := s.load(tenant, id); err != nil { //nolint:contextcheck // it is in memory
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.recent, id)
		return s.root.RemoveAll(string(id))
	}
	if err := s.Database.DeleteExecution(ctx, tenant, string(id), deletion); err != nil {
		return s.problem(id, err)
	}
	return s.purged(ctx, s.Blobs.Remove(ctx, tenant, string(id)))
}

// removeTenant removes all that there is of a tenant but events.
func (s *Store) removeTenant(ctx context.Context, tenant string) error {
	if err := s.Database.DeleteTenant(ctx, tenant); err != nil {
		return s.problem("", err)
	}
	return s.purged(ctx, s.Blobs.Remove(ctx, tenant, ""))
}

// purged makes what was deleted unreadable, and says when something of it may be left.
func (s *Store) purged(ctx context.Context, err error) error {
	if err = errors.Join(err, s.Database.Purge(ctx)); err == nil {
		return nil
	}
	s.Log.ErrorContext(ctx, "something that was deleted may be left in files", "error", err)
	return &Problem{Code: CodeStorage, Err: err, Text: "it is deleted, but not all of its bytes could be removed from the disk yet: " +
		"the next sweep tries again; the server's log says why"}
}

// event makes the event of something that a caller does.
func (e *Engine) event(who *auth.Principal, action, target string) store.Event {
	return store.Event{ID: string(e.NewID()), Tenant: who.Tenant, Key: who.Key, At: e.Now(), Action: action, Target: target}
}
