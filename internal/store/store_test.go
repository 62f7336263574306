// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"glovebox/internal/auth"
	"glovebox/internal/store"
	"glovebox/internal/store/storetest"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestSuite holds both databases to the same promises.
func TestSuite(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		suite(t, "sqlite:"+filepath.Join(t.TempDir(), "odd name ?#%", "glovebox.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		suite(t, storetest.Postgres(t))
	})
}

func suite(t *testing.T, url string) {
	t.Helper()
	s := open(t, url)
	for name, test := range map[string]func(*testing.T, *store.Store){
		"keys": keys, "executions": executions, "pages": pages, "code is read by record": code, "sandboxes": sandboxes,
		"usage": usage, "idempotency": idempotency, "retention": retention, "tenants are apart": tenants, "crowd": crowd,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
	// What was acknowledged is there when the database is opened again, and migrating twice changes nothing.
	again := open(t, url)
	reserved(t, s, again)
	identity(t, s, again)
	if _, err := again.Execution(t.Context(), "executions", "x1"); err != nil {
		t.Error(err)
	}
	if err := again.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func keys(t *testing.T, s *store.Store) {
	_, id, hash := auth.NewKey()
	key := auth.Key{
		ID: id, Tenant: "keys", Name: "ci 机器人 'quoted'", Hash: hash, Scopes: auth.DefaultScopes(), Policy: "strict", Images: []string{"python"},
		Quota: auth.Quota{PerMinute: 60, Memory: 1 << 40}, Created: noon, Expires: noon.Add(time.Hour),
	}
	if err := s.AddKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := s.AddKey(t.Context(), key); err == nil {
		t.Error("an id was taken twice")
	}
	if got, err := s.Key(t.Context(), id); err != nil || cmp.Diff(key, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(key, got))
	}
	if _, err := s.Key(t.Context(), "nobody"); !errors.Is(err, auth.ErrUnknown) {
		t.Error(err)
	}
	if err := s.Used(t.Context(), id, noon.Add(time.Minute)); err != nil {
		t.Error(err)
	}
	for _, at := range []time.Time{noon.Add(time.Hour), noon.Add(2 * time.Hour)} {
		if err := s.RevokeKey(t.Context(), id, at); err != nil {
			t.Error(err)
		}
	}
	if err := s.RevokeKey(t.Context(), "nobody", noon); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	key.LastUsed, key.Revoked = noon.Add(time.Minute), noon.Add(time.Hour)
	for _, tenant := range []string{"keys", ""} {
		listed, err := s.Keys(t.Context(), tenant)
		if err != nil || len(listed) != 1 || cmp.Diff(key, listed[0]) != "" {
			t.Errorf("tenant %q: %v %v", tenant, listed, err)
		}
	}
	if listed, err := s.Keys(t.Context(), "another"); err != nil || len(listed) != 0 {
		t.Errorf("another tenant's list: %v %v", listed, err)
	}
}

func executions(t *testing.T, s *store.Store) {
	x := store.Execution{ID: "x1", Tenant: "executions", Key: "k", Status: "running", Created: noon, Record: []byte(`{"a":"中 \u0000 😀"}`), Summary: []byte(`{"id":"x1"}`), Stored: 7}
	if err := s.PutExecution(t.Context(), x, ""); err != nil {
		t.Fatal(err)
	}
	x.Status, x.Record = "ok", []byte(strings.Repeat(`{"a":1}`, 1<<16))
	if err := s.PutExecution(t.Context(), x, "print(1)"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Execution(t.Context(), "executions", "x1")
	if err != nil || cmp.Diff(x, got) != "" {
		t.Errorf("%v %d bytes", err, len(got.Record))
	}
	x.ID = "x2"
	if err := s.PutExecution(t.Context(), x, "print(2)"); err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]string{"quotes": `{"id":"x2"}`, "does not": `{"id":"x1"}`} {
		if _, err := s.Claim(t.Context(), "executions", name, "r", noon); err != nil {
			t.Error(err)
		}
		if err := s.Answer(t.Context(), "executions", name, answer); err != nil {
			t.Error(err)
		}
	}
	if err := s.DeleteExecution(t.Context(), "executions", "x2", store.Event{ID: "deletion-1", Tenant: "x", At: noon, Action: "execution.delete"}); err != nil {
		t.Error(err)
	}
	if err := s.DeleteExecution(t.Context(), "executions", "x2", store.Event{ID: "deletion-2", Tenant: "x", At: noon, Action: "execution.delete"}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	for name, want := range map[string]string{"quotes": "", "does not": `{"id":"x1"}`} {
		if answer, err := s.Claim(t.Context(), "executions", name, "r", noon); err != nil || answer != want {
			t.Errorf("an answer that %s a deleted execution: %q, %v", name, answer, err)
		}
	}
	if _, err := s.Code(t.Context(), "executions", "x2", store.Event{ID: "e-x2", Tenant: "executions"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the code of a deleted execution: %v", err)
	}
}

func pages(t *testing.T, s *store.Store) {
	const all = 25
	for i := range all {
		status := "ok"
		if i%5 == 0 {
			status = "error"
		}
		// Several of one moment: the id decides.
		x := store.Execution{ID: fmt.Sprintf("p%02d", i), Tenant: "pages", Status: status, Created: noon.Add(time.Duration(i/4) * time.Second), Record: []byte("{}")}
		if err := s.PutExecution(t.Context(), x, ""); err != nil {
			t.Fatal(err)
		}
	}
	collect := func(status string, limit int) (ids []string) {
		page := store.Page{Status: status, Limit: limit}
		for {
			found, next, err := s.Executions(t.Context(), "pages", page)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range found {
				ids = append(ids, x.ID)
			}
			if next == "" {
				return ids
			}
			page.Before = next
		}
	}
	for _, limit := range []int{1, 4, 7, all, store.MaxPage} {
		ids := collect("", limit)
		if len(ids) != all || ids[0] != "p24" || ids[all-1] != "p00" {
			t.Errorf("by %d: %v", limit, ids)
		}
	}
	if ids := collect("error", 2); len(ids) != 5 {
		t.Errorf("errors: %v", ids)
	}
	for _, page := range []store.Page{{}, {Limit: store.MaxPage + 1}, {Limit: 1, Before: "x"}, {Limit: 1, Before: "eA"}, {Limit: 1, Before: "MS4"}} {
		if _, _, err := s.Executions(t.Context(), "pages", page); err == nil {
			t.Errorf("%+v was taken", page)
		}
	}
}

func code(t *testing.T, s *store.Store) {
	x := store.Execution{ID: "c1", Tenant: "code", Status: "ok", Created: noon, Record: []byte("{}")}
	const text = "print('salary')\r\n\x00\xff '中' \\u0000"
	if err := s.PutExecution(t.Context(), x, text); err != nil {
		t.Fatal(err)
	}
	reading := store.Event{ID: "e1", Tenant: "code", Key: "auditor", At: noon, Action: "code.read", Target: "c1"}
	source, err := s.Code(t.Context(), "code", "c1", reading)
	if err != nil || source != text {
		t.Errorf("%q %v", source, err)
	}
	// A reading that cannot be recorded is none.
	if source, err := s.Code(t.Context(), "code", "c1", reading); err == nil || source != "" {
		t.Errorf("read without a record: %q %v", source, err)
	}
	reading.ID = "e2"
	if _, err := s.Code(t.Context(), "another", "c1", reading); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	events, _, err := s.Events(t.Context(), "code", store.Page{Limit: 10})
	reading.ID = "e1"
	if err != nil || len(events) != 1 || cmp.Diff(reading, events[0]) != "" {
		t.Errorf("%v %v", events, err)
	}
}

func sandboxes(t *testing.T, s *store.Store) {
	b := store.Sandbox{ID: "b1", Tenant: "sandboxes", Key: "k", State: store.StateAlive, Created: noon, Record: []byte(`{"image":"python"}`)}
	for _, id := range []string{"b1", "b2"} {
		b.ID = id
		if err := s.PutSandbox(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	b.State, b.Ended = store.StateEnded, noon.Add(time.Minute)
	if err := s.PutSandbox(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Sandbox(t.Context(), "sandboxes", "b2"); err != nil || cmp.Diff(b, got) != "" {
		t.Errorf("%v %s", err, cmp.Diff(b, got))
	}
	alive, _, err := s.Sandboxes(t.Context(), "sandboxes", store.Page{Status: store.StateAlive, Limit: 10})
	if err != nil || len(alive) != 1 || alive[0].ID != "b1" {
		t.Errorf("%v %v", alive, err)
	}
	if n, err := s.EndLost(t.Context(), noon.Add(time.Hour)); err != nil || n != 1 {
		t.Errorf("%d lost, %v", n, err)
	}
	if got, err := s.Sandbox(t.Context(), "sandboxes", "b1"); err != nil || got.State != store.StateEnded {
		t.Errorf("%+v %v", got, err)
	}
}

func usage(t *testing.T, s *store.Store) {
	for day := range 3 {
		for range 2 {
			u := store.Usage{Runs: 1, CPU: 1500, MemorySeconds: 7, Stored: 1 << 33, Tokens: 11}
			if err := s.AddUsage(t.Context(), "usage", noon.AddDate(0, 0, day), u); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := s.Usage(t.Context(), "usage", noon, noon.AddDate(0, 0, 1))
	if want := (store.Usage{Runs: 4, CPU: 6000, MemorySeconds: 28, Stored: 1 << 35, Tokens: 44}); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := s.Usage(t.Context(), "nobody", noon, noon); err != nil || got != (store.Usage{}) {
		t.Errorf("%+v %v", got, err)
	}
}

func retention(t *testing.T, s *store.Store) {
	keep := store.Retention{Records: 7 * 24 * time.Hour, Code: 30 * 24 * time.Hour, Events: 180 * 24 * time.Hour, Answers: 24 * time.Hour}
	for _, days := range []int{0, 8, 31, 181} {
		at, id := noon.AddDate(0, 0, -days), fmt.Sprintf("r%d", days)
		err := errors.Join(
			s.PutExecution(t.Context(), store.Execution{ID: id, Tenant: "retention", Created: at, Record: []byte("{}")}, "code"),
			s.AddEvent(t.Context(), store.Event{ID: id, Tenant: "retention", At: at, Action: "a"}),
			s.PutSandbox(t.Context(), store.Sandbox{ID: id, Tenant: "retention", State: store.StateEnded, Created: at, Ended: at, Record: []byte("{}")}),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	old, err := s.Old(t.Context(), noon.Add(-keep.Records), 100)
	if err != nil || len(old) != 3 || old[0].ID != "r181" {
		t.Errorf("%v %v", old, err)
	}
	if _, err := s.Expire(t.Context(), noon, keep); err != nil {
		t.Fatal(err)
	}
	left := func(list func() (int, error), want int, what string) {
		if n, err := list(); err != nil || n != want {
			t.Errorf("%s: %d left, want %d, %v", what, n, want, err)
		}
	}
	left(func() (int, error) {
		found, _, err := s.Events(t.Context(), "retention", store.Page{Limit: 10})
		return len(found), err
	}, 3, "events")
	left(func() (int, error) {
		found, _, err := s.Sandboxes(t.Context(), "retention", store.Page{Limit: 10})
		return len(found), err
	}, 1, "sandboxes")
	left(func() (n int, _ error) {
		for i, id := range []string{"r0", "r8", "r31", "r181"} {
			_, err := s.Code(t.Context(), "retention", id, store.Event{ID: fmt.Sprint("rc", i), Tenant: "elsewhere"})
			if err == nil {
				n++
			} else if !errors.Is(err, store.ErrNotFound) {
				return n, err
			}
		}
		return n, nil
	}, 2, "code")
}

// tenants: no query answers for another tenant, and no write replaces what is another's.
func tenants(t *testing.T, s *store.Store) {
	x := store.Execution{ID: "mine", Tenant: "me", Status: "ok", Created: noon, Record: []byte("{}")}
	b := store.Sandbox{ID: "mine", Tenant: "me", State: store.StateAlive, Created: noon, Record: []byte("{}")}
	if err := errors.Join(s.PutExecution(t.Context(), x, "mine"), s.PutSandbox(t.Context(), b)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Execution(t.Context(), "you", "mine"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.Sandbox(t.Context(), "you", "mine"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if err := s.DeleteExecution(t.Context(), "you", "mine", store.Event{ID: "deletion-3", Tenant: "x", At: noon, Action: "execution.delete"}); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	x.Tenant, b.Tenant = "you", "you"
	if err := s.PutExecution(t.Context(), x, "yours"); err == nil {
		t.Error("another tenant's execution was replaced")
	}
	if err := s.PutSandbox(t.Context(), b); err == nil {
		t.Error("another tenant's sandbox was replaced")
	}
	if err := s.DeleteTenant(t.Context(), "you"); err != nil {
		t.Error(err)
	}
	if source, err := s.Code(t.Context(), "me", "mine", store.Event{ID: "tm"}); err != nil || source != "mine" {
		t.Errorf("%q %v", source, err)
	}
	if err := s.DeleteTenant(t.Context(), "me"); err != nil {
		t.Error(err)
	}
	if _, err := s.Execution(t.Context(), "me", "mine"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

// crowd: many writers at once lose nothing.
func crowd(t *testing.T, s *store.Store) {
	const writers, each = 16, 8
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				x := store.Execution{ID: fmt.Sprintf("w%dx%d", w, i), Tenant: "crowd", Created: noon, Record: []byte("{}")}
				err := errors.Join(s.PutExecution(t.Context(), x, "code"), s.AddUsage(t.Context(), "crowd", noon, store.Usage{Runs: 1}))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	found, _, err := s.Executions(t.Context(), "crowd", store.Page{Limit: store.MaxPage})
	u, usageErr := s.Usage(t.Context(), "crowd", noon, noon)
	if err := errors.Join(err, usageErr); err != nil || len(found) != writers*each || u.Runs != writers*each {
		t.Errorf("%d rows, %d runs, %v", len(found), u.Runs, err)
	}
}

// TestForgotten: a planted word is in no file of the database after what held it was deleted.
func TestForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "sqlite:"+filepath.Join(dir, "glovebox.db"))
	const word = "kumquat-7391"
	holds := func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(content), word) {
				return true
			}
		}
		return false
	}
	for i := range 50 {
		x := store.Execution{ID: fmt.Sprint("x", i), Tenant: "a", Created: noon, Record: []byte(`"` + word + `"`)}
		if err := s.PutExecution(t.Context(), x, word+strings.Repeat(" "+word, i*40)); err != nil {
			t.Fatal(err)
		}
	}
	if !holds() {
		t.Fatal("the word was not written: this test proves nothing")
	}
	if err := errors.Join(s.DeleteTenant(t.Context(), "a"), s.Purge(t.Context())); err != nil {
		t.Fatal(err)
	}
	if holds() {
		t.Error("the word is still there")
	}
}

func TestBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "sqlite:"+filepath.Join(dir, "glovebox.db"))
	x := store.Execution{ID: "x", Tenant: "a", Created: noon, Record: []byte("{}")}
	if err := s.PutExecution(t.Context(), x, "code"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "backup.db")
	if err := s.Backup(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if stat, err := os.Stat(file); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", stat, err)
	}
	if err := s.Backup(t.Context(), file); err == nil {
		t.Error("a backup was overwritten")
	}
	if err := store.Check(t.Context(), file); err != nil {
		t.Error(err)
	}
	if _, err := open(t, "sqlite:"+file).Execution(t.Context(), "a", "x"); err != nil {
		t.Error(err)
	}
	damaged := filepath.Join(dir, "damaged.db")
	if err := os.WriteFile(damaged, []byte("SQLite format 3\x00 and then nothing of the kind"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{damaged, filepath.Join(dir, "missing.db")} {
		if err := store.Check(t.Context(), wrong); err == nil {
			t.Errorf("%s passed as a backup", wrong)
		}
	}
}

func TestAddressesAreChecked(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "glovebox.db", "mysql://x", "sqlite:/dev/null/x.db", ":"} {
		if s, err := store.Open(t.Context(), address); err == nil {
			_ = s.Close()
			t.Errorf("%q was opened", address)
		}
	}
}

// TestNewerSchemaIsRefused: an older program does not touch the database of a newer one.
func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "glovebox.db")
	s := open(t, url)
	if err := store.PretendNewer(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if again, err := store.Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("%v %v", again, err)
	}
}

// TestOthersCannotReadTheDatabase: also when somebody copied it to its place with the rights of any file.
func TestOthersCannotReadTheDatabase(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "glovebox.db")
	s := open(t, "sqlite:"+file) // open: beside it are the log and its index
	x := store.Execution{ID: "x", Tenant: "a", Created: noon, Record: []byte("{}")}
	if err := s.PutExecution(t.Context(), x, "code"); err != nil {
		t.Fatal(err)
	}
	files := []string{file, file + "-wal", file + "-shm"}
	for _, name := range files {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	open(t, "sqlite:"+file)
	for _, name := range files {
		if stat, err := os.Stat(name); err != nil || stat.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, stat.Mode(), err)
		}
	}
}
