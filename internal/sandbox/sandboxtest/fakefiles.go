// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"glovebox/internal/sandbox"
)

// fakeFiles serves the working folder through an os.Root.
type fakeFiles struct{ box *fakeSandbox }

func (f *fakeFiles) root(name string) (*os.Root, string, error) {
	f.box.mu.Lock()
	defer f.box.mu.Unlock()
	if f.box.gone {
		return nil, "", sandbox.ErrGone
	}
	if !f.box.leased {
		return nil, "", sandbox.ErrLeased
	}
	root, err := os.OpenRoot(filepath.Join(f.box.dir, "home"))
	if inside, ok := strings.CutPrefix(name, "/home/user/"); ok {
		name = inside
	}
	return root, path.Clean(name), err
}

func (f *fakeFiles) with(name string, do func(root *os.Root, name string) error) error {
	root, name, err := f.root(name)
	if err != nil {
		return err
	}
	return errors.Join(do(root, name), root.Close())
}

func (f *fakeFiles) Put(_ context.Context, name string, content io.Reader) (written int64, err error) {
	err = f.with(name, func(root *os.Root, name string) error {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		part := ".glovebox-" + rand.Text()
		file, err := root.Create(part)
		if err != nil {
			return err
		}
		written, err = io.Copy(file, content)
		if err := errors.Join(err, file.Close()); err != nil {
			return errors.Join(err, root.Remove(part))
		}
		return root.Rename(part, name)
	})
	return written, err
}

func (f *fakeFiles) Get(_ context.Context, name string, offset int64) (io.ReadCloser, error) {
	var file *os.File
	err := f.with(name, func(root *os.Root, name string) (err error) {
		if file, err = root.Open(name); err != nil {
			return err
		}
		_, err = file.Seek(offset, io.SeekStart)
		return err
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f *fakeFiles) Stat(_ context.Context, name string) (info sandbox.FileInfo, err error) {
	err = f.with(name, func(root *os.Root, name string) error {
		stat, err := root.Stat(name)
		if err == nil {
			info = describe(stat, name)
		}
		return err
	})
	return info, err
}

func (f *fakeFiles) List(_ context.Context, name string) (infos []sandbox.FileInfo, err error) {
	err = f.with(name, func(root *os.Root, name string) error {
		dir, err := root.Open(name)
		if err != nil {
			return err
		}
		entries, err := dir.Readdir(-1)
		for _, entry := range entries {
			infos = append(infos, describe(entry, path.Join(name, entry.Name())))
		}
		return errors.Join(err, dir.Close())
	})
	return infos, err
}

// Unpack knows plain archives of files and folders.
func (f *fakeFiles) Unpack(_ context.Context, archive, dir string, limits sandbox.UnpackLimits) (done sandbox.Unpacked, err error) {
	err = f.with(archive, func(root *os.Root, name string) error {
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		for reader := tar.NewReader(file); ; done.Entries++ {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err == nil && (done.Entries >= limits.Entries || done.Bytes+header.Size > limits.Bytes) {
				err = &sandbox.RefusedError{Reason: "the archive is over a limit"}
			}
			if err != nil {
				return err
			}
			if !header.FileInfo().Mode().IsRegular() {
				done.Skipped++
				continue
			}
			content, err := io.ReadAll(reader)
			target := path.Join(dir, header.Name) //nolint:gosec // an os.Root keeps it inside
			if err := errors.Join(err, root.MkdirAll(path.Dir(target), 0o755), root.WriteFile(target, content, 0o600)); err != nil {
				return err
			}
			done.Bytes += header.Size
		}
	})
	return done, err
}

func (f *fakeFiles) MakeDir(_ context.Context, name string) error {
	return f.with(name, func(root *os.Root, name string) error { return root.MkdirAll(name, 0o755) })
}

func (f *fakeFiles) Move(_ context.Context, from, to string) error {
	return f.with(from, func(root *os.Root, name string) error { return root.Rename(name, path.Clean(to)) })
}

func (f *fakeFiles) Remove(_ context.Context, name string) error {
	return f.with(name, func(root *os.Root, name string) error {
		if _, err := root.Lstat(name); err != nil {
			return err
		}
		return root.RemoveAll(name)
	})
}

func describe(stat os.FileInfo, full string) sandbox.FileInfo {
	return sandbox.FileInfo{
		Name: stat.Name(), Path: full, Size: stat.Size(), Mode: stat.Mode(), ModTime: stat.ModTime().UnixNano(),
	}
}
