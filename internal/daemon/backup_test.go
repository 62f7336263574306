// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox/sandboxtest"
	"glovebox/internal/store"
)

type allImages struct{}

func (allImages) Use(name string) (string, func(), error) { return name, func() {}, nil }

// keeping opens a system as a server does.
func keeping(t *testing.T, c config.Config) *daemon.System {
	t.Helper()
	system, err := daemon.Open(c, daemon.Options{Backends: constructor(sandboxtest.NewFake(t.TempDir()), nil), Images: allImages{}, Keep: true}, discard())
	if err != nil {
		t.Fatal(err)
	}
	return system
}

// backedUp makes a data folder with an execution and a key, and a backup of it that was made while it was in use.
func backedUp(t *testing.T) (x *engine.Execution, file string) {
	t.Helper()
	c := settings(t)
	system := keeping(t, c)
	x, err := system.Engine.Run(t.Context(), engine.Request{Code: "print hello\nwrite out.txt left"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	database, err := daemon.OpenDatabase(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_, id, hash := auth.NewKey()
	err = errors.Join(database.AddKey(t.Context(), auth.Key{ID: id, Tenant: "alpha", Hash: hash, Created: time.Now()}), database.Close())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "backup.tar")
	contents, err := daemon.Backup(t.Context(), c, file)
	if err != nil || contents.Files != 3 || contents.Elsewhere {
		t.Fatalf("%+v, %v", contents, err)
	}
	if stat, err := os.Stat(file); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("the backup: %v, %v", stat, err)
	}
	if _, err := daemon.Backup(t.Context(), c, file); err == nil {
		t.Error("a file was replaced by a backup")
	}
	if _, err := daemon.Restore(t.Context(), c, file, true); !errors.Is(err, store.ErrReserved) {
		t.Errorf("a database in use was replaced: %v", err)
	}
	if err := system.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return x, file
}

// TestBackupAndRestore: all of it is there again in another data folder; one that keeps something is refused unless told.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	x, file := backedUp(t)
	c := settings(t)
	for _, force := range []bool{false, true} {
		if _, err := daemon.Restore(t.Context(), c, file, force); err != nil {
			t.Fatal(err)
		}
		system := keeping(t, c)
		got, err := system.Engine.Get(auth.DefaultTenant, x.ID)
		if err != nil || got.Stdout != "hello\n" {
			t.Errorf("%+v, %v", got, err)
		}
		artifact, _, err := system.Engine.OpenArtifact(auth.DefaultTenant, x.ID, "out.txt")
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(artifact)
		if err := errors.Join(err, artifact.Close()); err != nil || string(content) != "left" {
			t.Errorf("%q, %v", content, err)
		}
		newer, err := system.Engine.Run(t.Context(), engine.Request{Code: "print newer"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if force {
			if list, err := system.Engine.List(t.Context(), auth.DefaultTenant, engine.Page{Limit: 9}); err != nil || len(list.Executions) != 2 {
				t.Errorf("what was there before is still there: %+v, %v", list, err)
			}
		}
		if err := system.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := daemon.Restore(t.Context(), c, file, false); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), "--force") {
			t.Errorf("over a data folder with %s: %v", newer.ID, err)
		}
	}
	database, err := daemon.OpenDatabase(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := database.Keys(t.Context(), "alpha")
	if err := errors.Join(err, database.Close()); err != nil || len(keys) != 1 {
		t.Errorf("keys: %v, %v", keys, err)
	}
	if left, err := filepath.Glob(filepath.Join(c.Data, "runs", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestADamagedBackupChangesNothing: a byte that is another one, a file that is cut off, and one that is no backup.
func TestADamagedBackupChangesNothing(t *testing.T) {
	t.Parallel()
	x, file := backedUp(t)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := settings(t)
	if _, err := daemon.Restore(t.Context(), c, file, false); err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) []byte { damaged := bytes.Clone(good); damaged[at] ^= 1; return damaged }
	left := bytes.Index(good, []byte("left"))
	for name, content := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "cut off": good[:len(good)*2/3], "without its end": good[:len(good)-4*512],
		"in the database": flipped(2048), "in a file": flipped(left), "in a header": flipped(10),
	} {
		damaged := filepath.Join(t.TempDir(), "damaged.tar")
		if err := os.WriteFile(damaged, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := daemon.Restore(t.Context(), c, damaged, true); err == nil || !strings.Contains(err.Error(), "cannot be restored") {
			t.Errorf("%s: %v", name, err)
		}
	}
	system := keeping(t, c)
	if _, err := system.Engine.Get(auth.DefaultTenant, x.ID); err != nil {
		t.Errorf("after the attempts: %v", err)
	}
	if err := system.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestHostileBackupsAreRefused: no entry leaves the data folder or is anything but a file.
func TestHostileBackupsAreRefused(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]tar.Header{
		"upwards":       {Name: "blobs/../../../escaped/x", Typeflag: tar.TypeReg},
		"absolute":      {Name: "/tmp/escaped", Typeflag: tar.TypeReg},
		"a link":        {Name: "blobs/a/b", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		"a hard link":   {Name: "blobs/a/b/c", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		"a device":      {Name: "blobs/a/b/c", Typeflag: tar.TypeChar},
		"a folder":      {Name: "blobs/a/b/", Typeflag: tar.TypeDir},
		"another file":  {Name: "token", Typeflag: tar.TypeReg},
		"a dot":         {Name: "blobs/./x", Typeflag: tar.TypeReg},
		"too deep":      {Name: "blobs/a/b/c/d/e/f", Typeflag: tar.TypeReg},
		"an empty name": {Name: "blobs//x/y", Typeflag: tar.TypeReg},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := errors.Join(w.WriteHeader(&header), w.Close()); err != nil {
			t.Fatal(name, err)
		}
		c := settings(t)
		file := filepath.Join(t.TempDir(), "hostile.tar")
		if err := os.WriteFile(file, archive.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := daemon.Restore(t.Context(), c, file, false)
		if err == nil || !strings.Contains(err.Error(), "does not belong") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(c.Data, "glovebox.db")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was restored: %v", name, err)
		}
	}
}

// TestAnotherDatabasesBucketIsRefused: its files would be swept as those of nobody.
func TestAnotherDatabasesBucketIsRefused(t *testing.T) {
	t.Parallel()
	c := settings(t)
	if err := keeping(t, c).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Database = config.Secret("sqlite:" + filepath.Join(c.Data, "new.db"))
	options := daemon.Options{Backends: constructor(sandboxtest.NewFake(t.TempDir()), nil), Images: allImages{}, Keep: true}
	if _, err := daemon.Open(c, options, discard()); !errors.Is(err, store.ErrForeignBucket) || !strings.Contains(err.Error(), "GLOVEBOX_BLOBS") {
		t.Errorf("got %v", err)
	}
}

// TestASecondServerOnTheDatabaseIsRefused: by the name of the first; a command may use it meanwhile.
func TestASecondServerOnTheDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	first, second := settings(t), settings(t)
	first.Database = config.Secret("sqlite:" + filepath.Join(first.Data, "shared.db"))
	second.Database = first.Database
	system := keeping(t, first)
	options := daemon.Options{Backends: constructor(sandboxtest.NewFake(t.TempDir()), nil), Images: allImages{}, Keep: true}
	_, err := daemon.Open(second, options, discard())
	if engine.CodeOf(err) != engine.CodeStorage || !strings.Contains(err.Error(), "another server uses this database: ") || !strings.Contains(err.Error(), " pid ") {
		t.Errorf("got %v", err)
	}
	database, err := daemon.OpenDatabase(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(database.Close(), system.Close(t.Context())); err != nil {
		t.Error(err)
	}
	again := keeping(t, second)
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
