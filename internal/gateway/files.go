// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// fileInfo shows a file. All of it is the sandbox's claim.
type fileInfo struct {
	Name string `json:"name"`
	Path string `json:"path"`
	// Kind is file, folder or other.
	Kind     string    `json:"kind"`
	Size     int64     `json:"size"`
	Mode     string    `json:"mode"`
	Modified time.Time `json:"modified"`
}

type fileList struct {
	Files []fileInfo `json:"files"`
}

type putAnswer struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

type moveRequest struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type folderRequest struct {
	Path string `json:"path"`
}

func shown(info sandbox.FileInfo) fileInfo {
	kind := "other"
	switch {
	case info.Mode.IsRegular():
		kind = "file"
	case info.Mode.IsDir():
		kind = "folder"
	}
	return fileInfo{
		Name: info.Name, Path: info.Path, Kind: kind, Size: info.Size, Mode: info.Mode.Perm().String(),
		Modified: time.Unix(0, info.ModTime).UTC(),
	}
}

// inFiles does something with the files of a sandbox.
func (g *Gateway) inFiles(do func(w http.ResponseWriter, r *http.Request, files *engine.Files) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		files, err := g.Engine.FilesIn(caller(r).Tenant, sandboxID(r))
		if err == nil {
			err = do(w, r, files)
		}
		switch {
		case err == nil:
		case r.Context().Err() != nil:
			panic(http.ErrAbortHandler) // the client is gone
		default:
			g.fail(w, r, err)
		}
	}
}

// pathOf is the parameter path.
func pathOf(r *http.Request) string { return r.URL.Query().Get("path") }

// upload is the body of a request that is streamed on. The client has its time for each piece.
type upload struct {
	body    io.Reader
	control *http.ResponseController
	failed  error
}

func newUpload(w http.ResponseWriter, r *http.Request) *upload {
	return &upload{body: r.Body, control: http.NewResponseController(w)}
}

func (u *upload) Read(p []byte) (int, error) {
	_ = u.control.SetReadDeadline(time.Now().Add(writePatience)) // not supported by test recorders
	n, err := u.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		u.failed = err
	}
	return n, err
}

// explain tells a body that broke off from what else went wrong.
func (u *upload) explain(err error) error {
	_ = u.control.SetReadDeadline(time.Time{})
	if err != nil && u.failed != nil {
		return invalid("the body ended before it was whole, and nothing was kept of it: %w", u.failed)
	}
	return err
}

func (g *Gateway) putFile(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	leave := g.seat(w, r, g.transfers)
	if leave == nil {
		return nil
	}
	defer leave()
	body := newUpload(w, r)
	n, err := files.Put(r.Context(), pathOf(r), body, r.ContentLength)
	if err = body.explain(err); err != nil {
		return err
	}
	g.json(w, http.StatusOK, putAnswer{Path: pathOf(r), Bytes: n})
	return nil
}

func (g *Gateway) getFile(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	leave := g.seat(w, r, g.transfers)
	if leave == nil {
		return nil
	}
	defer leave()
	return files.Open(r.Context(), pathOf(r), func(info sandbox.FileInfo, content io.ReadSeeker) error {
		header := w.Header()
		header.Set("Content-Type", "application/octet-stream")
		header.Set("Content-Disposition", artifact.ContentDisposition(path.Base(path.Clean(pathOf(r)))))
		header.Set("ETag", fmt.Sprintf(`"%x-%x"`, info.ModTime, info.Size))
		http.ServeContent(&patientWriter{ResponseWriter: w, gateway: g}, r, "", time.Unix(0, info.ModTime), content)
		return nil
	})
}

func (g *Gateway) statFile(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	info, err := files.Stat(r.Context(), pathOf(r))
	if err == nil {
		g.json(w, http.StatusOK, shown(info))
	}
	return err
}

func (g *Gateway) listFiles(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	name := pathOf(r)
	if name == "" {
		name = "."
	}
	list, err := files.List(r.Context(), name)
	if err != nil {
		return err
	}
	answer := fileList{Files: make([]fileInfo, len(list))}
	for i, info := range list {
		answer.Files[i] = shown(info)
	}
	g.json(w, http.StatusOK, answer)
	return nil
}

func (g *Gateway) deleteFile(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	err := files.Remove(r.Context(), pathOf(r))
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (g *Gateway) moveFile(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	var q moveRequest
	err := g.decodeBody(w, r, &q)
	if err == nil {
		err = files.Move(r.Context(), q.From, q.To)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (g *Gateway) makeFolder(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	var q folderRequest
	err := g.decodeBody(w, r, &q)
	if err == nil {
		err = files.MakeDir(r.Context(), q.Path)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// getArchive streams a folder. What goes wrong after the beginning ends the connection: a half archive must not look whole.
func (g *Gateway) getArchive(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	leave := g.seat(w, r, g.transfers)
	if leave == nil {
		return nil
	}
	defer leave()
	format := engine.ArchiveFormat(r.URL.Query().Get("format"))
	if format == "" {
		format = engine.FormatTar
	}
	name := pathOf(r)
	if name == "" {
		name = "."
	}
	begun := false
	err := files.Archive(r.Context(), name, format, func() io.Writer {
		begun = true
		base := path.Base(path.Clean(name))
		if base == "." || base == "/" {
			base = "files"
		}
		w.Header().Set("Content-Type", map[engine.ArchiveFormat]string{engine.FormatTar: "application/x-tar", engine.FormatZip: "application/zip"}[format])
		w.Header().Set("Content-Disposition", artifact.ContentDisposition(base+"."+string(format)))
		return &patientWriter{ResponseWriter: w, gateway: g}
	})
	if err != nil && begun {
		g.Log.WarnContext(r.Context(), "an archive broke off", "sandbox", sandboxID(r), "error", err)
		panic(http.ErrAbortHandler)
	}
	return err
}

// putArchive has an archive unpacked inside the sandbox.
func (g *Gateway) putArchive(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	leave := g.seat(w, r, g.transfers)
	if leave == nil {
		return nil
	}
	defer leave()
	name := pathOf(r)
	if name == "" {
		name = "."
	}
	body := newUpload(w, r)
	done, err := files.Unpack(r.Context(), name, body, r.ContentLength)
	if err = body.explain(err); err != nil {
		return err
	}
	g.json(w, http.StatusOK, done)
	return nil
}

// watchFiles tells changes as Server-Sent Events until the client leaves or the sandbox ends.
func (g *Gateway) watchFiles(w http.ResponseWriter, r *http.Request, files *engine.Files) error {
	leave := g.seat(w, r, g.followers)
	if leave == nil {
		return nil
	}
	defer leave()
	name := pathOf(r)
	if name == "" {
		name = "."
	}
	s := &eventStream{gateway: g, w: w}
	err := files.Watch(r.Context(), name, func() { s.open("ready", struct{}{}) }, func(change engine.Change) error {
		return s.send("change", change)
	})
	if !s.stopKeepAlive() {
		return err
	}
	if err != nil && r.Context().Err() == nil {
		_ = s.send(eventProblem, problemOf(err)) // the client may have gone
	}
	return nil
}

// marshal is for what always can be.
func marshal(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		return []byte("null")
	}
	return encoded
}
