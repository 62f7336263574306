// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// ArchiveFormat is a form of archive that is written.
type ArchiveFormat string

// The formats.
const (
	FormatTar ArchiveFormat = "tar"
	FormatZip ArchiveFormat = "zip"
)

// member is one file or folder of an archive, with the name that it has in it.
type member struct {
	name string
	path string
	info sandbox.FileInfo
}

// Archive writes a folder as an archive; begin is called when it is known that there is one. Links, devices and names that
// no file has are left out: all of it is the sandbox's claim.
func (f *Files) Archive(ctx context.Context, dir string, format ArchiveFormat, begin func() io.Writer) error {
	return f.do(ctx, func(ctx context.Context, _ *held, files sandbox.Files, paths []string) error {
		if format != FormatTar && format != FormatZip {
			return &Problem{Code: CodeInvalid, Text: fmt.Sprintf("archive %q is not known: choose %s or %s", clip(string(format), 20), FormatTar, FormatZip)}
		}
		members, err := walk(ctx, files, paths[0], MaxArchiveEntries)
		if err != nil {
			return err
		}
		if format == FormatZip {
			return writeZip(ctx, files, members, begin())
		}
		return writeTar(ctx, files, members, begin())
	}, dir)
}

// walk lists a folder and all beneath it.
func walk(ctx context.Context, files sandbox.Files, root string, most int) (members []member, err error) {
	var total int64
	over := func(what string, limit any) error {
		return &Problem{Code: CodeTooLarge, Text: fmt.Sprintf("folder %s has more than %v %s: take its parts one by one", root, limit, what)}
	}
	var enter func(dir, name string, depth int) error
	enter = func(dir, name string, depth int) error {
		if depth > MaxArchiveDepth {
			return over("folders in one another", MaxArchiveDepth)
		}
		list, err := files.List(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) && depth > 0 {
			return nil // it went away meanwhile
		}
		if err != nil {
			return err
		}
		for _, info := range list {
			if sandbox.ValidFileName(info.Name) != nil || !info.Mode.IsRegular() && !info.Mode.IsDir() || info.Size < 0 {
				continue
			}
			m := member{name: path.Join(name, info.Name), path: path.Join(dir, info.Name), info: info}
			if members = append(members, m); len(members) > most {
				return over("entries", most)
			}
			if info.Mode.IsDir() {
				if err := enter(m.path, m.name, depth+1); err != nil {
					return err
				}
			} else if total += info.Size; total > MaxArchiveBytes || info.Size > MaxArchiveBytes {
				return over("bytes", policy.FormatSize(MaxArchiveBytes))
			}
		}
		return nil
	}
	return members, enter(root, "", 0)
}

func modified(info sandbox.FileInfo) time.Time {
	at := time.Unix(0, info.ModTime).UTC()
	if year := at.Year(); year < 1980 || year > 2100 { // what every format can hold
		return time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return at.Truncate(time.Second)
}

func writeTar(ctx context.Context, files sandbox.Files, members []member, w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, m := range members {
		header := &tar.Header{
			Name: m.name, Mode: int64(m.info.Mode.Perm()), ModTime: modified(m.info), Typeflag: tar.TypeReg, Size: m.info.Size, Format: tar.FormatPAX,
		}
		if m.info.Mode.IsDir() {
			header.Name, header.Typeflag, header.Size = m.name+"/", tar.TypeDir, 0
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if err := copyMember(ctx, files, m, archive); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeZip(ctx context.Context, files sandbox.Files, members []member, w io.Writer) error {
	archive := zip.NewWriter(w)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate, Modified: modified(m.info)}
		if m.info.Mode.IsDir() {
			header.Name, header.Method = m.name+"/", zip.Store
		}
		header.SetMode(m.info.Mode.Perm() | m.info.Mode&fs.ModeDir)
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if err := copyMember(ctx, files, m, entry); err != nil {
			return err
		}
	}
	return archive.Close()
}

// copyMember writes exactly as many bytes as were said: a file that changed meanwhile ends the archive, visibly.
func copyMember(ctx context.Context, files sandbox.Files, m member, w io.Writer) error {
	if m.info.Mode.IsDir() || m.info.Size == 0 {
		return nil
	}
	content, err := files.Get(ctx, m.path, 0)
	if err != nil {
		return err
	}
	defer content.Close()
	if n, err := io.CopyN(w, content, m.info.Size); err != nil {
		return fmt.Errorf("file %s after %d of %d bytes: %w", m.path, n, m.info.Size, err)
	}
	return nil
}
