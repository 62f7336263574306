// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// FileInfo describes a file in a sandbox: the sandbox's claim.
type FileInfo struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Kind is file, folder or other.
	Kind     string    `json:"kind"`
	Size     int64     `json:"size"`
	Mode     string    `json:"mode"`
	Modified time.Time `json:"modified"`
}

func filesCall(method, id, more, path string) call {
	asked := call{method: method, path: sandboxPath(id, "/files"+more)}
	if path != "" {
		asked.query = url.Values{"path": {path}}
	}
	return asked
}

// Files lists a folder of a sandbox; an empty path is the working folder.
func (s Sandboxes) Files(ctx context.Context, id, path string) ([]FileInfo, error) {
	var found struct {
		Files []FileInfo `json:"files"`
	}
	if err := s.client.object(ctx, filesCall(http.MethodGet, id, "/list", path), &found); err != nil {
		return nil, err
	}
	return found.Files, nil
}

// Open opens a file of a sandbox, absolute or beneath its working folder: all of it, or at most one part. The caller closes
// it, and bounds what it reads.
func (s Sandboxes) Open(ctx context.Context, id, path string, part ...Range) (io.ReadCloser, error) {
	return s.client.download(ctx, filesCall(http.MethodGet, id, "", path), part)
}

// Put writes a file of a sandbox; it is there when it is whole. Open is called once for each attempt.
func (s Sandboxes) Put(ctx context.Context, id, path string, open func() (io.ReadCloser, error)) error {
	asked := filesCall(http.MethodPut, id, "", path)
	var failed error
	asked.body = func() (io.ReadCloser, string) {
		content, err := open()
		if err != nil {
			failed = err
			return io.NopCloser(failing{err}), "application/octet-stream"
		}
		return content, "application/octet-stream"
	}
	err := s.client.object(ctx, asked, nil)
	if failed != nil {
		return failed
	}
	return err
}

// failing is a body that cannot be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// Remove removes a file, or a folder with all in it.
func (s Sandboxes) Remove(ctx context.Context, id, path string) error {
	return s.client.object(ctx, filesCall(http.MethodDelete, id, "", path), nil)
}

// Interrupt interrupts the cell that runs in a session; an empty one is main. The variables stay.
func (s Sandboxes) Interrupt(ctx context.Context, id, session string) error {
	if session == "" {
		session = "main"
	}
	return s.client.object(ctx, call{method: http.MethodPost, path: sandboxPath(id, "/sessions/"+url.PathEscape(session)+"/interrupt")}, nil)
}
