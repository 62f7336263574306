// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// The limits of files and archives of a held sandbox.
const (
	MaxPath = 4096 // bytes of a path

	MaxArchiveEntries = 20_000
	MaxArchiveBytes   = 4 << 30
	MaxArchiveDepth   = 64
)

// Files are the files of a held sandbox, as its own user sees them: the work is done inside it.
type Files struct {
	engine *Engine
	tenant string
	id     sandbox.ID
}

// FilesIn returns the files of a tenant's sandbox.
func (e *Engine) FilesIn(tenant string, id sandbox.ID) (*Files, error) {
	if _, err := e.lookUp(tenant, id); err != nil {
		return nil, err
	}
	return &Files{e, tenant, id}, nil
}

// cleanPath takes an absolute path, or one beneath the working folder that never leads out of it.
func cleanPath(name string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", &Problem{Code: CodeInvalid, Text: fmt.Sprintf("path %q is refused: %s", clip(name, 80), why)}
	}
	cleaned := path.Clean(name)
	switch {
	case name == "":
		return refuse("it is empty; . is the working folder")
	case len(name) > MaxPath:
		return refuse(fmt.Sprintf("it has %d bytes and %d are allowed", len(name), MaxPath))
	case !plainText(name):
		return refuse("it is not text on one line")
	case cleaned == ".." || strings.HasPrefix(cleaned, "../"):
		return refuse("it leads out of the working folder; give an absolute path if that is meant")
	}
	return cleaned, nil
}

// do carries out one thing with the files at paths.
func (f *Files) do(ctx context.Context, do func(ctx context.Context, h *held, files sandbox.Files, paths []string) error, names ...string) error {
	var faults []error
	paths := make([]string, len(names))
	for i, name := range names {
		var err error
		paths[i], err = cleanPath(name)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return problemOf(err)
	}
	h, ctx, leave, err := f.engine.visit(ctx, f.tenant, f.id)
	if err != nil {
		return err
	}
	defer leave()
	err = do(ctx, h, h.box.Files(), paths)
	if ctx.Err() != nil && err != nil {
		return h.explain(context.Cause(ctx))
	}
	return h.explain(err)
}

// Put writes a file. The size is what the caller says that the content has, or -1.
func (f *Files) Put(ctx context.Context, name string, content io.Reader, size int64) (written int64, err error) {
	err = f.do(ctx, func(ctx context.Context, h *held, files sandbox.Files, paths []string) error {
		if err := h.roomFor(size); err != nil {
			return err
		}
		written, err = files.Put(ctx, paths[0], content)
		return err
	}, name)
	return written, err
}

// roomFor refuses what can never fit before it is sent.
func (h *held) roomFor(size int64) error {
	if limit := h.decision.Limits.Disk; size > limit {
		return &Problem{Code: CodeTooLarge, Text: fmt.Sprintf(
			"%d bytes do not fit: the sandbox's limit disk is %s; make a sandbox with more", size, policy.FormatSize(limit))}
	}
	return nil
}

// Stat describes a file, or what a link leads to.
func (f *Files) Stat(ctx context.Context, name string) (info sandbox.FileInfo, err error) {
	err = f.do(ctx, func(ctx context.Context, _ *held, files sandbox.Files, paths []string) error {
		info, err = files.Stat(ctx, paths[0])
		return err
	}, name)
	return info, err
}

// Open opens a regular file for as long as use works with it.
func (f *Files) Open(ctx context.Context, name string, use func(info sandbox.FileInfo, content io.ReadSeeker) error) error {
	return f.do(ctx, func(ctx context.Context, _ *held, files sandbox.Files, paths []string) error {
		info, err := files.Stat(ctx, paths[0])
		switch {
		case err != nil:
			return err
		case info.Mode.IsDir():
			return &Problem{Code: CodeInvalid, Text: clip(paths[0], MaxName) + " is a folder: list it, or take it as an archive"}
		case !info.Mode.IsRegular() || info.Size < 0:
			return &Problem{Code: CodeInvalid, Text: clip(paths[0], MaxName) + " is not a regular file"}
		}
		content := &content{ctx: ctx, files: files, path: paths[0], size: info.Size}
		return errors.Join(use(info, content), content.close())
	}, name)
}

// content reads a file from wherever it is told to.
type content struct {
	ctx    context.Context //nolint:containedctx // it bounds a Reader, whose Read takes none
	files  sandbox.Files
	path   string
	size   int64
	offset int64
	open   io.ReadCloser
}

func (c *content) Read(p []byte) (int, error) {
	if c.offset >= c.size {
		return 0, io.EOF
	}
	if c.open == nil {
		var err error
		if c.open, err = c.files.Get(c.ctx, c.path, c.offset); err != nil {
			return 0, err
		}
	}
	n, err := c.open.Read(p[:min(int64(len(p)), c.size-c.offset)])
	c.offset += int64(n)
	return n, err
}

func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.offset
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning")
	}
	if offset == c.offset {
		return offset, nil
	}
	c.offset = offset
	return offset, c.close()
}

func (c *content) close() error {
	if c.open == nil {
		return nil
	}
	err := c.open.Close()
	c.open = nil
	return err
}

// List describes what is in a folder.
func (f *Files) List(ctx context.Context, name string) (list []sandbox.FileInfo, err error) {
	err = f.do(ctx, func(ctx context.Context, _ *held, files sandbox.Files, paths []string) error {
		list, err = files.List(ctx, paths[0])
		return err
	}, name)
	return list, err
}

// MakeDir makes a folder and those above it.
func (f *Files) MakeDir(ctx context.Context, name string) error {
	return f.do(ctx, func(ctx context.Context, _ *held, files sandbox.Files, paths []string) error {
		return files.MakeDir(ctx, paths[0])
	}, name)
}

// Move renames; what is at the new place is replaced.
func (f *Files) Move(ctx context.Context, from, to string) error {
	return f.do(ctx, func(ctx context.Context, _ *held, files sandbox.Files, paths []string) error {
		return files.Move(ctx, paths[0], paths[1])
	}, from, to)
}

// Remove removes a file, or a folder with all that is in it.
func (f *Files) Remove(ctx context.Context, name string) error {
	return f.do(ctx, func(ctx context.Context, _ *held, files sandbox.Files, paths []string) error {
		return files.Remove(ctx, paths[0])
	}, name)
}

// Unpack puts a tar archive into the sandbox, which unpacks it into a folder as its own user.
func (f *Files) Unpack(ctx context.Context, dir string, archive io.Reader, size int64) (done sandbox.Unpacked, err error) {
	err = f.do(ctx, func(ctx context.Context, h *held, files sandbox.Files, paths []string) error {
		if err := h.roomFor(size); err != nil {
			return err
		}
		part := ".glovebox-archive-" + rand.Text()
		defer func() { _ = files.Remove(context.WithoutCancel(ctx), part) }() // it may never have been made
		if _, err := files.Put(ctx, part, archive); err != nil {
			return err
		}
		done, err = files.Unpack(ctx, part, paths[0], sandbox.UnpackLimits{
			Entries: MaxArchiveEntries, Bytes: min(MaxArchiveBytes, 2*h.decision.Limits.Disk), Depth: MaxArchiveDepth,
		})
		return err
	}, dir)
	return done, err
}
