// SPDX-License-Identifier: Apache-2.0

package fileserver

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"glovebox/internal/guest/fileserver/untar"
	"glovebox/internal/guest/wire"
)

// MaxUnpacks bounds how many archives are being unpacked at once.
const MaxUnpacks = 2

// beginUnpack unpacks beside the other requests: an archive may be long.
func (s *server) beginUnpack(id uint32, request wire.File) error {
	select {
	case s.unpacks <- struct{}{}:
	default:
		return s.reply(id, wire.Reply{}, fmt.Errorf("more than %d archives are being unpacked", MaxUnpacks))
	}
	go func() {
		defer func() { <-s.unpacks }()
		reply, err := unpack(request)
		_ = s.reply(id, reply, err) // without a channel the server ends
	}()
	return nil
}

// unpack makes the folders and regular files of an archive beneath a folder; what else it holds is skipped and counted. The
// folder is entered once and never left: no name and no link of the archive, nor one that was there, leads out of it.
func unpack(request wire.File) (wire.Reply, error) {
	archive, err := os.Open(request.Path)
	if err != nil {
		return wire.Reply{}, err
	}
	defer archive.Close()
	if err := os.MkdirAll(request.To, 0o755); err != nil {
		return wire.Reply{}, err
	}
	root, err := os.OpenRoot(request.To)
	if err != nil {
		return wire.Reply{}, err
	}
	defer root.Close()
	reader, err := untar.NewReader(archive, untar.Limits{Entries: request.MaxEntries, Bytes: request.MaxBytes, Depth: request.MaxDepth})
	if err != nil {
		return wire.Reply{}, err
	}
	var reply wire.Reply
	for {
		entry, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return reply, nil
		}
		if err == nil {
			err = place(root, entry, reader, &reply)
		}
		if err != nil {
			return reply, fmt.Errorf("after %d entries: %w", reply.Entries, err)
		}
	}
}

func place(root *os.Root, entry untar.Entry, content io.Reader, reply *wire.Reply) error {
	switch entry.Kind {
	case untar.Folder:
		reply.Entries++
		return root.MkdirAll(entry.Name, 0o755)
	case untar.File:
		if err := root.MkdirAll(path.Dir(entry.Name), 0o755); err != nil {
			return err
		}
		// What is there is replaced, never written through: it may be a pipe.
		if err := root.Remove(entry.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		file, err := root.OpenFile(entry.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, entry.Mode)
		if err != nil {
			return err
		}
		n, err := io.Copy(file, content)
		reply.Size += n
		reply.Entries++
		return errors.Join(err, file.Close())
	default:
		reply.Skipped++
		return nil
	}
}
