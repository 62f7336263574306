// SPDX-License-Identifier: Apache-2.0

// Package fileserver does the file work of a sandbox inside it. It runs as a confined process of the sandbox's own
// user, so that a path or a link can lead nowhere user code could not go itself, and every byte it writes is charged
// to the run.
package fileserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/wire"
)

// Command is the argument that makes the guest binary a file server.
const Command = "files"

// The limits of the server.
const (
	// MaxList bounds how many entries one listing returns.
	MaxList = 10_000
	// MaxListBytes bounds the names of one listing together, so that it fits in a reply.
	MaxListBytes = 1 << 20
	// MaxPath bounds the bytes of a path (PATH_MAX of Linux).
	MaxPath = 4096
	// MaxPuts bounds how many files are being written at once.
	MaxPuts = 16
)

// Serve answers requests on the channel until it ends. Relative paths are beneath the working directory.
func Serve(channel io.ReadWriter) error {
	signal.Ignore(unix.SIGXFSZ) // a file over its limit is an error of that request
	s := &server{out: wire.NewWriter(channel), puts: make(map[uint32]*put), unpacks: make(chan struct{}, MaxUnpacks)}
	reader := wire.NewReader(bufio.NewReaderSize(channel, 64<<10))
	for {
		m, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.handle(m); err != nil {
			return err
		}
	}
}

type server struct {
	out  *wire.Writer
	puts map[uint32]*put
	// unpacks holds a token for each archive that is being unpacked.
	unpacks chan struct{}
}

type put struct {
	file   *os.File
	offset int64
	size   int64
	err    error
}

func (s *server) handle(m wire.Message) error {
	switch m.Kind {
	case wire.KindFile:
		var request wire.File
		if err := m.Decode(&request); err != nil {
			return err
		}
		return s.file(m.ID, request)
	case wire.KindFileData:
		if p := s.puts[m.ID]; p != nil {
			p.write(m.Payload)
		}
		return nil
	case wire.KindFileEnd:
		return s.endPut(m.ID)
	default:
		return fmt.Errorf("%w: a file server does not know %s", wire.ErrProtocol, m.Kind)
	}
}

func (s *server) file(id uint32, request wire.File) error {
	for _, path := range []string{request.Path, request.To} {
		if len(path) > MaxPath {
			return s.reply(id, wire.Reply{}, fmt.Errorf("a path of %d bytes: at most %d are allowed", len(path), MaxPath))
		}
	}
	switch request.Op {
	case wire.FilePut:
		return s.beginPut(id, request)
	case wire.FileGet:
		return s.get(id, request)
	case wire.FileStat:
		info, err := stat(request.Path)
		if err != nil {
			return s.reply(id, wire.Reply{}, err)
		}
		return s.reply(id, wire.Reply{Files: []wire.FileInfo{describe(request.Path, info)}}, nil)
	case wire.FileList:
		files, err := list(request.Path)
		return s.reply(id, wire.Reply{Files: files}, err)
	case wire.FileUnpack:
		return s.beginUnpack(id, request)
	case wire.FileMakeDir:
		return s.reply(id, wire.Reply{}, os.MkdirAll(request.Path, 0o755))
	case wire.FileMove:
		return s.reply(id, wire.Reply{}, move(request.Path, request.To))
	case wire.FileRemove:
		if _, err := os.Lstat(request.Path); err != nil {
			return s.reply(id, wire.Reply{}, err)
		}
		return s.reply(id, wire.Reply{}, os.RemoveAll(request.Path))
	default:
		return s.reply(id, wire.Reply{}, fmt.Errorf("no file operation %q", request.Op))
	}
}

// stat follows links, but for one that leads nowhere.
func stat(path string) (fs.FileInfo, error) {
	if info, err := os.Stat(path); err == nil {
		return info, nil
	}
	return os.Lstat(path)
}

func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (s *server) beginPut(id uint32, request wire.File) error {
	if len(s.puts) >= MaxPuts {
		return s.reply(id, wire.Reply{}, fmt.Errorf("more than %d files are being written", MaxPuts))
	}
	p := &put{offset: request.Offset}
	flags := os.O_WRONLY | unix.O_NOFOLLOW
	if request.Offset == 0 {
		flags |= os.O_CREATE | os.O_EXCL
		p.err = os.MkdirAll(filepath.Dir(request.Path), 0o755)
	}
	if p.err == nil {
		p.file, p.err = os.OpenFile(request.Path, flags, 0o644)
	}
	s.puts[id] = p
	return nil
}

func (p *put) write(b []byte) {
	if p.err != nil {
		return
	}
	n, err := p.file.WriteAt(b, p.offset+p.size)
	p.size += int64(n)
	p.err = err
}

func (s *server) endPut(id uint32) error {
	p := s.puts[id]
	if p == nil {
		return nil
	}
	delete(s.puts, id)
	if p.file != nil {
		p.err = errors.Join(p.err, p.file.Close())
	}
	return s.reply(id, wire.Reply{Size: p.size}, p.err)
}

func (s *server) get(id uint32, request wire.File) error {
	size, err := s.sendFile(id, request)
	return s.reply(id, wire.Reply{Size: size}, err)
}

func (s *server) sendFile(id uint32, request wire.File) (int64, error) {
	info, err := os.Stat(request.Path)
	if err != nil {
		return 0, err
	}
	// A FIFO would hang and a device would never end.
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "read", Path: request.Path, Err: errors.New("it is not a regular file")}
	}
	file, err := os.Open(request.Path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if _, err := file.Seek(request.Offset, io.SeekStart); err != nil {
		return 0, err
	}
	var sent int64
	buffer := make([]byte, wire.MaxPayload)
	piece := io.LimitReader(file, request.Length)
	for {
		n, err := piece.Read(buffer)
		if n > 0 {
			if err := s.out.Bytes(wire.KindFileData, id, buffer[:n]); err != nil {
				return sent, err
			}
			sent += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
	}
}

func list(path string) ([]wire.FileInfo, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(MaxList + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(entries) > MaxList {
		return nil, fmt.Errorf("folder %s has more than %d entries", path, MaxList)
	}
	files, size := make([]wire.FileInfo, 0, len(entries)), 0
	for _, entry := range entries {
		if size += len(path) + 2*len(entry.Name()); size > MaxListBytes {
			return nil, fmt.Errorf("the names in folder %s have more than %d bytes", path, MaxListBytes)
		}
		info, err := entry.Info()
		if err != nil {
			continue // it went away while we looked
		}
		files = append(files, describe(filepath.Join(path, entry.Name()), info))
	}
	return files, nil
}

func describe(path string, info fs.FileInfo) wire.FileInfo {
	return wire.FileInfo{
		Name: info.Name(), Path: path, Size: info.Size(), Mode: uint32(info.Mode()), ModTime: info.ModTime().UnixNano(),
	}
}

func (s *server) reply(id uint32, reply wire.Reply, err error) error {
	if err != nil {
		reply.Code, reply.Error = codeOf(err), err.Error()
	}
	return s.out.JSON(wire.KindReply, id, reply)
}

func codeOf(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wire.CodeNotFound
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return wire.CodeFull
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return wire.CodeDenied
	default:
		return wire.CodeFailed
	}
}
