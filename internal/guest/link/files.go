// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"glovebox/internal/guest/wire"
	"glovebox/internal/sandbox"
)

// Files serves the sandbox's files through its file server.
type Files struct{ conn *Conn }

// Files returns the sandbox's files.
func (c *Conn) Files() *Files { return &Files{conn: c} }

// Put writes a file, piece by piece beside its place, and puts it there when it is whole.
func (f *Files) Put(ctx context.Context, name string, content io.Reader) (size int64, err error) {
	part := path.Join(path.Dir(name), ".glovebox-"+rand.Text())
	defer func() {
		if err != nil { // nobody waits for it: the file server may be stuck
			go func() { _ = f.Remove(context.WithoutCancel(ctx), part) }() // it may never have been made
		}
	}()
	buffer := make([]byte, filePiece)
	for whole := false; !whole; {
		n, err := io.ReadFull(content, buffer)
		whole = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !whole {
			return size, fmt.Errorf("read the content for %s: %w", name, err)
		}
		if n == 0 && size > 0 {
			break
		}
		if ctx.Err() != nil {
			return size, context.Cause(ctx)
		}
		if err := f.putPiece(ctx, part, size, buffer[:n]); err != nil {
			return size, err
		}
		size += int64(n)
	}
	return size, f.Move(ctx, part, name)
}

// putPiece sends one piece. All of it is sent, even if nobody waits for the answer.
func (f *Files) putPiece(ctx context.Context, part string, offset int64, piece []byte) error {
	c := f.conn
	c.putMu.Lock()
	defer c.putMu.Unlock()
	id, started := c.begin()
	defer c.end(id, started)
	piece = bytes.Clone(piece)
	err := c.write(ctx, func() error {
		return errors.Join(
			c.out.JSON(wire.KindFile, id, wire.File{Op: wire.FilePut, Path: part, Offset: offset}),
			c.out.Bytes(wire.KindFileData, id, piece), c.out.Bytes(wire.KindFileEnd, id, []byte("{}")),
		)
	})
	if err != nil {
		return err
	}
	reply, err := c.awaitReply(ctx, started)
	if err == nil && reply.Size != int64(len(piece)) {
		err = fmt.Errorf("%w: %d bytes of %d were written", wire.ErrProtocol, reply.Size, len(piece))
	}
	return err
}

// Get opens a file for reading.
func (f *Files) Get(ctx context.Context, name string, offset int64) (io.ReadCloser, error) {
	d := &download{ctx: ctx, conn: f.conn, name: name, offset: offset}
	// The first piece tells whether there is anything to read.
	if err := d.advance(); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// download is the reading end of a Get. The next piece is asked for when the one before was read.
type download struct {
	ctx    context.Context //nolint:containedctx // it bounds a Reader, whose Read takes none
	conn   *Conn
	name   string
	offset int64 // of the next piece

	id   uint32
	call *call // nil between two pieces
	rest []byte
	err  error
}

func (d *download) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if err := d.advance(); err != nil {
			return 0, err
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// advance waits for more bytes.
func (d *download) advance() error {
	for d.err == nil && len(d.rest) == 0 {
		if d.call == nil {
			d.err = d.ask()
			continue
		}
		select {
		case m := <-d.call.messages:
			d.err = d.take(m)
		case <-d.ctx.Done():
			d.err = context.Cause(d.ctx)
		case <-d.conn.closed:
			select {
			case m := <-d.call.messages:
				d.err = d.take(m)
			default:
				d.err = d.conn.gone()
			}
		}
	}
	if len(d.rest) > 0 {
		return nil
	}
	return d.err
}

// ask asks for the next piece.
func (d *download) ask() error {
	d.id, d.call = d.conn.begin()
	return d.conn.write(d.ctx, func() error {
		return d.conn.out.JSON(wire.KindFile, d.id, wire.File{Op: wire.FileGet, Path: d.name, Offset: d.offset, Length: filePiece})
	})
}

func (d *download) take(m wire.Message) error {
	if m.Kind == wire.KindFileData {
		d.rest = m.Payload
		d.offset += int64(len(m.Payload))
		return nil
	}
	reply, err := replyOf(m)
	if err != nil {
		return err
	}
	if reply.Size < filePiece {
		return io.EOF
	}
	return d.Close()
}

// Close ends the piece that is under way.
func (d *download) Close() error {
	if d.call != nil {
		d.conn.end(d.id, d.call)
		d.call = nil
	}
	return nil
}

// Unpack unpacks an archive that lies in the sandbox.
func (f *Files) Unpack(ctx context.Context, archive, dir string, limits sandbox.UnpackLimits) (sandbox.Unpacked, error) {
	c := f.conn
	id, started := c.begin()
	defer c.end(id, started)
	if err := c.write(ctx, func() error {
		return c.out.JSON(wire.KindFile, id, wire.File{
			Op: wire.FileUnpack, Path: archive, To: dir, MaxEntries: limits.Entries, MaxBytes: limits.Bytes, MaxDepth: limits.Depth,
		})
	}); err != nil {
		return sandbox.Unpacked{}, err
	}
	select { // as long as the caller waits: an archive may be long
	case m := <-started.messages:
		reply, err := replyOf(m)
		return sandbox.Unpacked{Entries: reply.Entries, Bytes: reply.Size, Skipped: reply.Skipped}, err
	case <-ctx.Done():
		return sandbox.Unpacked{}, context.Cause(ctx)
	case <-c.closed:
		return sandbox.Unpacked{}, c.gone()
	}
}

// Stat describes a file; of a link, what it leads to.
func (f *Files) Stat(ctx context.Context, path string) (sandbox.FileInfo, error) {
	reply, err := f.ask(ctx, wire.File{Op: wire.FileStat, Path: path})
	if err != nil {
		return sandbox.FileInfo{}, err
	}
	if len(reply.Files) != 1 {
		return sandbox.FileInfo{}, fmt.Errorf("%w: stat returned %d files", wire.ErrProtocol, len(reply.Files))
	}
	return fileInfo(reply.Files[0]), nil
}

// List describes what is in a folder.
func (f *Files) List(ctx context.Context, path string) ([]sandbox.FileInfo, error) {
	reply, err := f.ask(ctx, wire.File{Op: wire.FileList, Path: path})
	if err != nil {
		return nil, err
	}
	files := make([]sandbox.FileInfo, len(reply.Files))
	for i, file := range reply.Files {
		files[i] = fileInfo(file)
	}
	return files, nil
}

// MakeDir makes a folder and those above it.
func (f *Files) MakeDir(ctx context.Context, path string) error {
	_, err := f.ask(ctx, wire.File{Op: wire.FileMakeDir, Path: path})
	return err
}

// Move renames.
func (f *Files) Move(ctx context.Context, from, to string) error {
	_, err := f.ask(ctx, wire.File{Op: wire.FileMove, Path: from, To: to})
	return err
}

// Remove removes a file, or a folder with all that is in it.
func (f *Files) Remove(ctx context.Context, path string) error {
	_, err := f.ask(ctx, wire.File{Op: wire.FileRemove, Path: path})
	return err
}

func (f *Files) ask(ctx context.Context, request wire.File) (wire.Reply, error) {
	return f.conn.ask(ctx, wire.KindFile, request)
}

func fileInfo(info wire.FileInfo) sandbox.FileInfo {
	return sandbox.FileInfo{
		Name: info.Name, Path: info.Path, Size: info.Size, Mode: fs.FileMode(info.Mode), ModTime: info.ModTime,
	}
}
