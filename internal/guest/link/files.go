// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"glovebox/internal/guest/wire"
	"glovebox/internal/sandbox"
)

// Files serves the sandbox's files through its file server.
type Files struct{ conn *Conn }

// Files returns the sandbox's files.
func (c *Conn) Files() *Files { return &Files{conn: c} }

// Put writes a file.
func (f *Files) Put(ctx context.Context, path string, content io.Reader) (int64, error) {
	c := f.conn
	// One at a time: what is on its way to the file server is bounded by one window.
	c.putMu.Lock()
	defer c.putMu.Unlock()
	id, started := c.begin()
	defer c.end(id, started)
	if err := c.write(ctx, func() error {
		return c.out.JSON(wire.KindFile, id, wire.File{Op: wire.FilePut, Path: path})
	}); err != nil {
		return 0, err
	}
	if refused, err := f.send(ctx, id, started, path, content); refused || err != nil {
		return 0, err
	}
	if err := c.write(ctx, func() error { return c.out.Bytes(wire.KindFileEnd, id, []byte("{}")) }); err != nil {
		return 0, err
	}
	reply, err := c.awaitReply(ctx, started)
	return reply.Size, err
}

// send streams the content, at most putWindow frames ahead of what the file server has written. It reports a refusal
// that came before the end of the content.
func (f *Files) send(ctx context.Context, id uint32, started *call, path string, content io.Reader) (bool, error) {
	c := f.conn
	buffer := make([]byte, wire.MaxPayload)
	for ahead := 0; ; {
		n, readErr := io.ReadFull(content, buffer)
		if n > 0 {
			if err := c.write(ctx, func() error { return c.out.Bytes(wire.KindFileData, id, buffer[:n]) }); err != nil {
				return false, err
			}
			ahead++
		}
		if errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) {
			readErr, n = nil, 0
		}
		if readErr != nil {
			return false, fmt.Errorf("read the content for %s: %w", path, readErr)
		}
		for ahead >= putWindow || (n == 0 && ahead > 0) {
			select {
			case m := <-started.messages:
				if m.Kind != wire.KindFileData {
					_, err := replyOf(m)
					return true, err
				}
				ahead--
			case <-ctx.Done():
				return false, context.Cause(ctx)
			case <-c.closed:
				return false, c.gone()
			}
		}
		if n == 0 {
			return false, nil
		}
	}
}

// Get opens a file for reading.
func (f *Files) Get(ctx context.Context, path string, offset int64) (io.ReadCloser, error) {
	c := f.conn
	id, started := c.begin()
	if err := c.write(ctx, func() error {
		return c.out.JSON(wire.KindFile, id, wire.File{Op: wire.FileGet, Path: path, Offset: offset})
	}); err != nil {
		c.end(id, started)
		return nil, err
	}
	d := &download{ctx: ctx, conn: c, id: id, call: started}
	// The first message tells whether there is anything to read.
	if err := d.advance(); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// download is the reading end of a Get.
type download struct {
	ctx    context.Context //nolint:containedctx // it bounds a Reader, whose Read takes none
	conn   *Conn
	id     uint32
	call   *call
	rest   []byte
	err    error
	closed bool
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

// advance waits for the next piece.
func (d *download) advance() error {
	if d.err != nil {
		return d.err
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
	return d.err
}

func (d *download) take(m wire.Message) error {
	switch m.Kind {
	case wire.KindFileData:
		d.rest = m.Payload
		return nil
	case wire.KindFileEnd:
		return nil // the reply follows
	default:
		if _, err := replyOf(m); err != nil {
			return err
		}
		return io.EOF
	}
}

func (d *download) Close() error {
	if !d.closed {
		d.closed = true
		d.conn.end(d.id, d.call)
	}
	return nil
}

// Stat describes a file; a link is not followed.
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
