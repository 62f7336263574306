// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/store"
)

// The entries of a backup, in their order: the database, the files of the bucket beneath blobs, and the sum of all before it.
const (
	backupDatabase = "glovebox.db"
	backupBlobs    = "blobs"
	backupSum      = "SHA256"
)

// maxBackupDepth is how many names may stand in the path of an entry: blobs/TENANT/EXECUTION/artifacts/0000.
const maxBackupDepth = 5

// Contents says what is in a backup.
type Contents struct {
	Files int
	Bytes int64
	// Elsewhere says that the files of executions are in a bucket that is not in the backup.
	Elsewhere bool
}

// Backup writes the database, with keys, and the bucket, where it is a folder, to a new file, while a server uses them. The
// token of the operator is not in it.
func Backup(ctx context.Context, c config.Config, file string) (contents Contents, err error) {
	database, err := OpenDatabase(ctx, c)
	if err != nil {
		return contents, err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	folder, remove, err := RunFolder(c.Data)
	if err != nil {
		return contents, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	snapshot := filepath.Join(folder, backupDatabase)
	if err := database.Backup(ctx, snapshot); err != nil {
		return contents, err
	}
	target, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return contents, fmt.Errorf("make the backup: %w", err)
	}
	w := newBackupWriter(target)
	err = w.add(snapshot, backupDatabase)
	// The database first: what comes after it has files without a record, which the start of a server removes.
	blobs, local := blobFolder(c)
	if err == nil && local {
		err = w.addTree(ctx, blobs)
	}
	if err = errors.Join(err, w.close(), target.Sync(), target.Close()); err != nil {
		return contents, errors.Join(fmt.Errorf("make the backup %s: %w", file, err), os.Remove(file))
	}
	w.contents.Elsewhere = !local
	return w.contents, nil
}

// blobFolder is the folder of the bucket, if it is one.
func blobFolder(c config.Config) (folder string, local bool) {
	if c.Blobs == "" {
		return filepath.Join(c.Data, blobsName), true
	}
	return strings.CutPrefix(c.Blobs, "file:")
}

// databaseFile is the file of the database, if it is SQLite's.
func databaseFile(c config.Config) (file string, local bool) {
	if c.Database == "" {
		return filepath.Join(c.Data, databaseName), true
	}
	return strings.CutPrefix(string(c.Database), "sqlite:")
}

// backupWriter writes entries and sums them up.
type backupWriter struct {
	tar      *tar.Writer
	sum      hash.Hash
	contents Contents
}

func newBackupWriter(w io.Writer) *backupWriter {
	return &backupWriter{tar: tar.NewWriter(w), sum: sha256.New()}
}

func (b *backupWriter) addTree(ctx context.Context, folder string) error {
	return filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted meanwhile
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !entry.Type().IsRegular() || filepath.Dir(name) == folder: // such as the mark of whose the bucket is
			return nil
		}
		relative, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		err = b.add(name, path.Join(backupBlobs, filepath.ToSlash(relative)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// add adds a file. It fails with ErrNotExist only before anything is written.
func (b *backupWriter) add(file, name string) error {
	source, err := os.Open(file)
	if err != nil {
		return err
	}
	defer source.Close()
	stat, err := source.Stat()
	if err != nil {
		return err
	}
	if err := b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: stat.Size(), Mode: 0o600, ModTime: stat.ModTime()}); err != nil {
		return err
	}
	sumEntry(b.sum, name, stat.Size())
	if _, err := io.CopyN(io.MultiWriter(b.tar, b.sum), source, stat.Size()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.contents.Files++
	b.contents.Bytes += stat.Size()
	return nil
}

func sumEntry(sum hash.Hash, name string, size int64) {
	fmt.Fprintf(sum, "%d %s %d\n", len(name), name, size)
}

func (b *backupWriter) close() error {
	text := hex.EncodeToString(b.sum.Sum(nil))
	err := b.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: backupSum, Size: int64(len(text)), Mode: 0o600})
	if err == nil {
		_, err = io.WriteString(b.tar, text)
	}
	return errors.Join(err, b.tar.Close())
}

// Restore puts a backup into the data folder, of which no server may make use. What is kept there already is an error, or is
// replaced when that is said. Nothing is changed before the whole backup was read and found good.
func Restore(ctx context.Context, c config.Config, file string, replace bool) (contents Contents, err error) {
	database, local := databaseFile(c)
	if !local {
		return contents, databaseProblem(store.ErrNotSQLite)
	}
	blobs, _ := blobFolder(c)
	if err := dataFolder(c.Data); err != nil {
		return contents, err
	}
	unlock, err := lockData(c.Data)
	if err != nil {
		return contents, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := os.MkdirAll(filepath.Dir(database), 0o700); err != nil {
		return contents, err
	}
	reserved, err := store.LockFile(database, serverName(c)) // another data folder's server may have it
	if err != nil {
		return contents, databaseProblem(err)
	}
	defer func() { err = errors.Join(err, reserved.Close()) }()
	if !replace {
		if err := mustBeEmpty(database, blobs); err != nil {
			return contents, err
		}
	}
	stage, remove, err := RunFolder(c.Data)
	if err != nil {
		return contents, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if contents, err = unpackBackup(ctx, file, stage); err != nil {
		return contents, fmt.Errorf("%s cannot be restored: %w", file, err)
	}
	return contents, putInPlace(stage, database, blobs)
}

// mustBeEmpty refuses to restore over something.
func mustBeEmpty(database, blobs string) error {
	found := database
	_, err := os.Stat(database)
	if errors.Is(err, fs.ErrNotExist) {
		found = blobs
		var entries []fs.DirEntry
		if entries, err = os.ReadDir(blobs); errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return &engine.Problem{Code: engine.CodeInvalid, Text: found +
		" is there already: choose another data folder, or replace what is kept with --force"}
}

// unpackBackup unpacks a backup into a folder and checks all of it.
func unpackBackup(ctx context.Context, file, stage string) (contents Contents, err error) {
	source, err := os.Open(file)
	if err != nil {
		return contents, err
	}
	defer source.Close()
	root, err := os.OpenRoot(stage)
	if err != nil {
		return contents, err
	}
	defer root.Close()
	sum := sha256.New()
	reader := tar.NewReader(source)
	for ctx.Err() == nil {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return contents, errors.New("it is cut off: its last entry is missing")
		}
		if err != nil {
			return contents, fmt.Errorf("it is no backup, or damaged: %w", err)
		}
		if header.Name == backupSum {
			if err := checkSum(reader, sum); err != nil {
				return contents, err
			}
			return contents, store.Check(ctx, filepath.Join(stage, backupDatabase))
		}
		if err := checkEntry(header); err != nil {
			return contents, err
		}
		sumEntry(sum, header.Name, header.Size)
		if err := unpackEntry(root, header, io.TeeReader(reader, sum)); err != nil {
			return contents, err
		}
		contents.Files++
		contents.Bytes += header.Size
	}
	return contents, context.Cause(ctx)
}

func checkSum(reader io.Reader, sum hash.Hash) error {
	text, err := io.ReadAll(io.LimitReader(reader, 2*sha256.Size+1))
	if err != nil || string(text) != hex.EncodeToString(sum.Sum(nil)) {
		return errors.Join(errors.New("it is damaged: its sum is another one"), err)
	}
	return nil
}

// checkEntry takes regular files with the names that a backup has, and nothing else.
func checkEntry(header *tar.Header) error {
	parts := strings.Split(header.Name, "/")
	ok := header.Typeflag == tar.TypeReg && (header.Name == backupDatabase ||
		parts[0] == backupBlobs && len(parts) > 2 && len(parts) <= maxBackupDepth)
	for _, part := range parts {
		ok = ok && part != "" && part != "." && part != ".." && !strings.ContainsAny(part, "\\\x00")
	}
	if !ok {
		return fmt.Errorf("entry %.100q does not belong into a backup", header.Name)
	}
	return nil
}

func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	if err := root.MkdirAll(path.Dir(header.Name), 0o700); err != nil {
		return err
	}
	file, err := root.OpenFile(header.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("entry %.100q is there twice", header.Name)
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("entry %.100q: %w", header.Name, err)
	}
	return nil
}

// putInPlace replaces what is kept by what is in the stage. The old database goes first: a server that starts in between
// finds none, and no mixture.
func putInPlace(stage, database, blobs string) error {
	for _, old := range []string{database, database + "-wal", database + "-shm", blobs} {
		if err := os.RemoveAll(old); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(blobs), 0o700); err != nil {
		return err
	}
	err := os.Rename(filepath.Join(stage, backupBlobs), blobs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("put the bucket in its place: %w", err)
	}
	if err := os.Rename(filepath.Join(stage, backupDatabase), database); err != nil {
		return fmt.Errorf("put the database in its place: %w", err)
	}
	return nil
}
