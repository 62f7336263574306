// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
	"glovebox/internal/store"
	"glovebox/internal/store/storetest"
)

// kept is a bench whose executions are kept in a database and a bucket.
type kept struct {
	*bench
	database *store.Store
	folder   string
	clock    *clock
}

// clock can be put forward.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

const day = 24 * time.Hour

func retention() engine.Retention {
	return engine.Retention{Count: 1000, Age: 7 * day, Code: 30 * day, Events: 180 * day, Answers: day}
}

// openKept opens the store of a folder, as a server does.
func openKept(tb testing.TB, folder, url string, r engine.Retention, now func() time.Time) (*engine.Store, *store.Store) {
	tb.Helper()
	database, err := store.Open(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	blobs, err := store.OpenBlobs(tb.Context(), "file:"+filepath.Join(folder, "blobs"))
	if err != nil {
		tb.Fatal(err)
	}
	s, err := engine.NewStore(engine.StoreConfig{
		Spool: filepath.Join(folder, "executions"), Database: database, Blobs: blobs, Retention: r, Now: now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(s.Close(), blobs.Close(), database.Close()); err != nil {
			tb.Error(err)
		}
	})
	return s, database
}

func newKept(t *testing.T, r engine.Retention) *kept {
	t.Helper()
	folder := t.TempDir()
	return newKeptIn(t, folder, "sqlite:"+filepath.Join(folder, "glovebox.db"), r)
}

func newKeptIn(t *testing.T, folder, url string, r engine.Retention) *kept {
	t.Helper()
	c := &clock{}
	s, database := openKept(t, folder, url, r, c.now)
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(config *engine.Config) { config.Store, config.Now = s, c.now })
	b.store = s
	return &kept{bench: b, database: database, folder: folder, clock: c}
}

// places lists the files below the folder that hold the planted word.
func places(t *testing.T, folder string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), word) || strings.Contains(path, word) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func content(t *testing.T, file io.ReadCloser, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestKeptSuite: both databases keep executions in the same way, and a server that starts again has all of them.
func TestKeptSuite(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T, string) string{
		"sqlite":   func(_ *testing.T, folder string) string { return "sqlite:" + filepath.Join(folder, "glovebox.db") },
		"postgres": func(t *testing.T, _ string) string { t.Helper(); return storetest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			address := url(t, folder)
			first := newKeptIn(t, folder, address, retention())
			x := first.run(t, code("print hello", "write out.txt left", "write empty.txt ", "value 1"), nil)
			silent := first.run(t, code("value 1"), nil)
			again := newKeptIn(t, folder, address, retention()) // as after a kill: the first one was not closed
			for _, b := range []*kept{first, again} {
				got, err := b.Get(mine, x.ID)
				if err != nil || got.Stdout != "hello\n" || len(got.Artifacts) != 2 {
					t.Fatalf("%+v, %v", got, err)
				}
				out, err := b.OpenOutput(mine, x.ID, "stdout")
				if text := content(t, out, err); text != "hello\n" {
					t.Errorf("stdout is %q", text)
				}
				for name, want := range map[string]string{"out.txt": "left", "empty.txt": ""} {
					file, a, err := b.OpenArtifact(mine, x.ID, name)
					if text := content(t, file, err); text != want || a.Name != name {
						t.Errorf("%s is %q", name, text)
					}
				}
				out, err = b.OpenOutput(mine, silent.ID, "stderr")
				if text := content(t, out, err); text != "" {
					t.Errorf("nothing was printed: %q", text)
				}
				list, err := b.List(t.Context(), mine, engine.Page{Limit: 10})
				if err != nil || len(list.Executions) != 2 || list.Executions[1].ID != x.ID || list.Executions[1].Artifacts != 2 {
					t.Errorf("%+v, %v", list, err)
				}
			}
			source, err := again.Code(t.Context(), auth.Operator(), x.ID)
			if err != nil || !strings.HasPrefix(source, "print hello\n") {
				t.Errorf("the code is %q, %v", source, err)
			}
			if err := again.Delete(t.Context(), auth.Operator(), x.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := again.Get(mine, x.ID); engine.CodeOf(err) != engine.CodeNotFound {
				t.Errorf("after Delete: %v", err)
			}
			events, _, err := again.database.Events(t.Context(), mine, store.Page{Limit: 10})
			if err != nil || len(events) != 2 || events[0].Action != engine.ActionDeleteExecution || events[1].Action != engine.ActionReadCode {
				t.Errorf("events: %+v, %v", events, err)
			}
		})
	}
}

// TestSilentRunsLeaveNoFile: what printed and left nothing has a row, and nothing in the bucket or the spool.
func TestSilentRunsLeaveNoFile(t *testing.T) {
	t.Parallel()
	b := newKept(t, retention())
	b.run(t, code("value 1"), nil)
	for _, name := range []string{"blobs", "executions"} {
		if entries, err := os.ReadDir(filepath.Join(b.folder, name)); err != nil || len(entries) != 0 {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

// word is planted where a run's data go: the code, what is printed, a name and the content of a file, a value, an upload.
const word = "plantedZ7Q"

func planted(tenant string) engine.Request {
	r := code("print "+word, "eprint "+word, "write "+word+".txt "+word, "raise E "+word)
	r.Who = auth.Of(auth.Key{ID: "k", Tenant: tenant, Scopes: auth.Scopes()})
	r.Inputs = map[string]json.RawMessage{"v": json.RawMessage(`"` + word + `"`)}
	return r
}

// TestAPlantedWordIsGone: after DELETE of an execution or a tenant, or the end of the retention, the word is in no file of
// the data folder: database, write-ahead log, bucket, spool.
func TestAPlantedWordIsGone(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*testing.T, *kept, sandbox.ID, *auth.Principal){
		"delete": func(t *testing.T, b *kept, id sandbox.ID, who *auth.Principal) {
			t.Helper()
			if err := b.Delete(t.Context(), who, id); err != nil {
				t.Error(err)
			}
		},
		"tenant": func(t *testing.T, b *kept, _ sandbox.ID, who *auth.Principal) {
			t.Helper()
			if err := b.DeleteTenant(t.Context(), who, who.Tenant); err != nil {
				t.Error(err)
			}
		},
		"expiry": func(t *testing.T, b *kept, id sandbox.ID, who *auth.Principal) {
			t.Helper()
			b.clock.forward(8 * day)
			if err := b.store.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := b.Get(who.Tenant, id); engine.CodeOf(err) != engine.CodeNotFound {
				t.Errorf("after its time: %v", err)
			}
			if _, err := b.Code(t.Context(), who, id); err != nil { // has a time of its own
				t.Errorf("the code went with the record: %v", err)
			}
			b.clock.forward(23 * day)
			if err := b.store.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newKept(t, retention())
			request := planted("alpha")
			x := b.run(t, request, nil)
			other := b.run(t, code("print other"), nil)
			if found := places(t, b.folder); len(found) < 3 {
				t.Fatalf("the word is only in %v: is it looked for?", found)
			}
			forget(t, b, x.ID, request.Who)
			if found := places(t, b.folder); len(found) > 0 {
				t.Errorf("the word is in %v", found)
			}
			if _, err := b.Get(mine, other.ID); (err == nil) != (name != "expiry") {
				t.Errorf("another tenant's execution: %v", err)
			}
		})
	}
}

// TestDeleteTenantEndsWhatLives: what runs and lives of it ends, and its last records are gone too. Another tenant cannot.
func TestDeleteTenantEndsWhatLives(t *testing.T) {
	t.Parallel()
	b := newKept(t, retention())
	request := planted("alpha")
	id, err := b.Start(engine.Request{Code: "print " + word + "\nspin", Who: request.Who})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Hold(t.Context(), engine.Request{Who: request.Who}); err != nil {
		t.Fatal(err)
	}
	beta := auth.Of(auth.Key{ID: "b", Tenant: "beta", Scopes: auth.Scopes()})
	for _, tenant := range []string{"alpha", "..", "", "never"} {
		if err := b.DeleteTenant(t.Context(), beta, tenant); engine.CodeOf(err) != engine.CodeNotFound {
			t.Errorf("beta deletes %q: %v", tenant, err)
		}
	}
	if err := b.DeleteTenant(t.Context(), auth.Operator(), "alpha"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get("alpha", id); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("its execution: %v", err)
	}
	if living := b.fake.Living(); len(living) > 0 {
		t.Errorf("alive: %v", living)
	}
	if found := places(t, b.folder); len(found) > 0 {
		t.Errorf("the word is in %v", found)
	}
}

// TestRecover: a start finds files without a record and records without files and removes both, and says of what ran that it
// is lost.
func TestRecover(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	url := "sqlite:" + filepath.Join(folder, "glovebox.db")
	first := newKeptIn(t, folder, url, retention())
	whole := first.run(t, code("print whole"), nil)
	half := first.run(t, code("print half"), nil)
	running, err := first.Start(code("print on", "spin"))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		list, err := first.List(t.Context(), mine, engine.Page{Limit: 9, Status: "running"})
		return err == nil && len(list.Executions) == 1
	})
	orphan := filepath.Join(folder, "blobs", mine, "neverkept")
	err = errors.Join(os.RemoveAll(filepath.Join(folder, "blobs", mine, string(half.ID))), os.MkdirAll(orphan, 0o700),
		os.WriteFile(filepath.Join(orphan, "stdout"), []byte("x"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	second := newKeptIn(t, folder, url, retention())
	if _, err := os.Stat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files without a record: %v", err)
	}
	if _, err := second.Get(mine, half.ID); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("a record without files: %v", err)
	}
	out, err := second.OpenOutput(mine, whole.ID, "stdout")
	if text := content(t, out, err); text != "whole\n" {
		t.Errorf("what is whole: %q", text)
	}
	lost, err := second.Get(mine, running)
	if err != nil || lost.Status != "infra" || !strings.Contains(lost.Message, "the server ended while this ran") {
		t.Errorf("what ran: %+v, %v", lost, err)
	}
	list, err := second.List(t.Context(), mine, engine.Page{Limit: 9, Status: "infra"})
	if err != nil || len(list.Executions) != 1 || list.Executions[0].ID != running {
		t.Errorf("the list of what was lost: %+v, %v", list, err)
	}
}

// waitFor waits until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for !so() {
		if t.Context().Err() != nil {
			t.Fatal("it does not come")
		}
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	r := retention()
	r.Count = 3
	b := newKept(t, r)
	for range 5 {
		b.run(t, code("print x"), nil)
	}
	if err := b.store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		list, err := b.List(t.Context(), mine, engine.Page{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(b.folder, "blobs", mine))
		if err != nil || len(entries) != len(list.Executions) {
			t.Errorf("%d records, files of %d: %v", len(list.Executions), len(entries), err)
		}
		return len(list.Executions)
	}
	if got := count(); got != 3 {
		t.Errorf("%d are kept by count", got)
	}
	b.clock.forward(7*day + time.Hour)
	if err := b.store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 0 {
		t.Errorf("%d are kept by age", got)
	}
	if _, err := engine.OpenStore(t.TempDir(), engine.Retention{}, time.Now); err == nil {
		t.Error("an unlimited retention was taken")
	}
	if _, err := engine.NewStore(engine.StoreConfig{Retention: engine.Retention{Count: 1, Age: 1, Code: 1, Events: 1}}); err == nil {
		t.Error("answers without an end were taken")
	}
}

func TestListRefuses(t *testing.T) {
	t.Parallel()
	b := newKept(t, retention())
	for _, page := range []engine.Page{{}, {Limit: engine.MaxPage + 1}, {Limit: 1, Status: "odd"}, {Limit: 1, Before: "%"}, {Limit: 1, Before: "AAAA"}} {
		if _, err := b.List(t.Context(), mine, page); engine.CodeOf(err) != engine.CodeInvalid {
			t.Errorf("%+v: %v", page, err)
		}
	}
}

// TestDeletesUnderLoad: each deletion empties the write-ahead log while others read and write, and none fails for it.
func TestDeletesUnderLoad(t *testing.T) {
	t.Parallel()
	b := newKept(t, retention())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 10 {
				x, err := b.Run(t.Context(), code("print "+word), nil)
				if err == nil {
					_, err = b.List(t.Context(), mine, engine.Page{Limit: 50})
				}
				if err == nil {
					err = b.Delete(t.Context(), auth.Operator(), x.ID)
				}
				if err != nil {
					t.Error(err, errors.Unwrap(err))
				}
			}
		})
	}
	group.Wait()
	if found := places(t, b.folder); len(found) > 0 {
		t.Errorf("the word is in %v", found)
	}
}

// BenchmarkRecord is what keeping an execution costs: its folder, its output, its record and code, as they are kept for a
// single run and for a server.
func BenchmarkRecord(b *testing.B) {
	for _, keeps := range []bool{false, true} {
		for name, printed := range map[string]string{"silent": "", "prints": "hello\n"} {
			b.Run(map[bool]string{false: "memory/", true: "database/"}[keeps]+name, func(b *testing.B) {
				folder := b.TempDir()
				s, err := engine.OpenStore(filepath.Join(folder, "run"), engine.Retention{Count: 100, Age: time.Hour}, time.Now)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				if keeps {
					s, _ = openKept(b, folder, "sqlite:"+filepath.Join(folder, "glovebox.db"), retention(), time.Now)
				}
				newID := engine.NewIDs()
				var took []time.Duration
				for b.Loop() {
					began := time.Now()
					x := &engine.Execution{ID: newID(), Tenant: mine, Status: "ok", Stdout: printed, Created: began, Policy: "standard", Image: "python"}
					if err := s.Record(b.Context(), x, printed); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			})
		}
	}
}
