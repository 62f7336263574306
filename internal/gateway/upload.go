// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

const (
	// maxFields bounds the fields of a form that are not files.
	maxFields = 64
	// maxFaults bounds what is said of a form, which may have millions of parts.
	maxFaults = 100
)

// form is a multipart upload on its way in: files go to disk as they come.
type form struct {
	gateway *Gateway
	folder  string
	// memory counts what is kept of the fields, all together.
	memory *metered
	files  []sandbox.InputFile
	fields map[string]json.RawMessage
	faults []string
}

// decodeForm reads a multipart body. Its fields are those of the JSON body, as text or JSON; the field request may hold
// the whole JSON body instead. Every part with a file name is a file, whatever its field.
func (g *Gateway) decodeForm(body io.ReadCloser, boundary, tenant string) (_ *asked, err error) {
	if boundary == "" {
		return nil, invalid("the body's Content-Type has no boundary")
	}
	if err := os.MkdirAll(g.Uploads, 0o700); err != nil {
		return nil, storage(err)
	}
	folder, err := os.MkdirTemp(g.Uploads, "upload-*")
	if err != nil {
		return nil, storage(err)
	}
	disk := g.uploads.meter(tenant, body)
	f := &form{gateway: g, folder: folder, memory: g.bodies.meter(tenant, nil), fields: map[string]json.RawMessage{}}
	release := func() error {
		err := os.RemoveAll(folder)
		disk.release()
		f.memory.release()
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, release())
		}
	}()
	if err := f.read(multipart.NewReader(disk, boundary)); err != nil {
		return nil, err
	}
	a, err := f.asked()
	if err != nil {
		return nil, err
	}
	a.Files = append(a.Files, f.files...)
	a.Release = func() {
		if err := release(); err != nil {
			g.Log.Warn("removing an upload failed", "error", err)
		}
	}
	return a, nil
}

func storage(err error) error {
	return &engine.Problem{Code: engine.CodeStorage, Err: err, Text: fmt.Sprintf("the upload cannot be stored: %v; free some space in the data folder", err)}
}

func (f *form) read(reader *multipart.Reader) error {
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.part(part)
		}
		var tooLarge *http.MaxBytesError
		var known *engine.Problem
		switch {
		case err == nil:
		case errors.As(err, &tooLarge), errors.As(err, &known):
			return err
		default:
			return invalid("the form cannot be read: %w", err)
		}
	}
}

func (f *form) part(part *multipart.Part) error {
	// Part.FileName hides folders in the name; we want to refuse them.
	_, parameters, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return f.skip(part, "a part's Content-Disposition cannot be read: %.200v", err)
	}
	// Clients send a script as -F code=@script.py: that is the code, not a file for it.
	if name, ok := parameters["filename"]; ok && parameters["name"] != "code" {
		return f.file(part, name)
	}
	return f.field(part, parameters["name"])
}

// fault remembers what is wrong with the form. Of very many it is an error: the form is not read any further.
func (f *form) fault(format string, values ...any) error {
	f.faults = append(f.faults, fmt.Errorf(format, values...).Error())
	if len(f.faults) < maxFaults {
		return nil
	}
	return &engine.Problem{Code: engine.CodeInvalid, Text: "the form is not valid, and has more faults than are read", Faults: f.faults}
}

// skip reads over a part with a fault.
func (f *form) skip(part io.Reader, format string, values ...any) error {
	if err := f.fault(format, values...); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, part)
	return err
}

// file streams an upload to disk.
func (f *form) file(part io.Reader, name string) error {
	if err := sandbox.ValidFileName(name); err != nil {
		return f.skip(part, "%w", err)
	}
	if len(f.files) >= engine.MaxFiles {
		return invalid("more than %d files: send fewer", engine.MaxFiles)
	}
	path := filepath.Join(f.folder, strconv.Itoa(len(f.files)))
	target, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return storage(err)
	}
	most := f.gateway.MaxFile
	sink := &markedWriter{sink: target}
	n, err := io.Copy(sink, io.LimitReader(part, most+1))
	err = errors.Join(err, target.Close())
	switch {
	case sink.failed != nil:
		return storage(sink.failed)
	case err != nil:
		return err
	case n > most:
		return &engine.Problem{Code: engine.CodeTooLarge, Text: fmt.Sprintf("file %q is larger than the limit of %d bytes", name, most)}
	}
	f.files = append(f.files, sandbox.InputFile{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(path) }})
	return nil
}

// markedWriter remembers that it was the writing that failed, and not the reading.
type markedWriter struct {
	sink   io.Writer
	failed error
}

func (w *markedWriter) Write(p []byte) (int, error) {
	n, err := w.sink.Write(p)
	w.failed = err
	return n, err
}

// field reads a text field. All of them together may have as many bytes as a JSON body: they are kept in memory.
func (f *form) field(part *multipart.Part, name string) error {
	left := f.gateway.MaxJSON - f.memory.taken
	f.memory.ReadCloser = part
	content, err := io.ReadAll(io.LimitReader(f.memory, left+1))
	if err != nil {
		return err
	}
	if int64(len(content)) > left {
		return &engine.Problem{Code: engine.CodeTooLarge, Text: fmt.Sprintf(
			"field %.80q makes the fields larger than the limit of %d bytes: send large content as files", name, f.gateway.MaxJSON)}
	}
	if _, twice := f.fields[name]; twice || len(f.fields) >= maxFields {
		return f.fault("field %.80q is given twice, or there are more than %d fields", name, maxFields)
	}
	f.fields[name] = content
	return nil
}

// asked makes a request of the fields.
func (f *form) asked() (*asked, error) {
	var q executionRequest
	whole, isWhole := f.fields["request"]
	switch {
	case len(f.faults) > 0:
		return nil, &engine.Problem{Code: engine.CodeInvalid, Text: "the form is not valid", Faults: f.faults}
	case isWhole && len(f.fields) > 1:
		return nil, invalid("the form has the field request and others beside it: use one or the other")
	case isWhole:
		if err := strictJSON(bytes.NewReader(whole), &q); err != nil {
			return nil, err
		}
	default:
		object, err := f.object()
		if err != nil {
			return nil, err
		}
		if err := strictJSON(bytes.NewReader(object), &q); err != nil {
			return nil, err
		}
	}
	a, err := q.asked()
	if err != nil {
		return nil, invalid("%w", err)
	}
	return a, nil
}

// object turns form fields into the JSON body: text fields are quoted, the others are JSON already.
func (f *form) object() ([]byte, error) {
	object := map[string]json.RawMessage{}
	for name, content := range f.fields {
		switch name {
		case "code", "name", "language", "policy", "image", "backend":
			quoted, err := json.Marshal(string(content))
			if err != nil {
				return nil, invalid("field %q cannot be used: %w", name, err)
			}
			object[name] = quoted
		case "limits", "env", "inputs", "return", "detach", "cancel_on_disconnect", "fresh", "metadata", "lease":
			if !json.Valid(content) {
				return nil, invalid("field %q is not JSON: %q", name, strings.ToValidUTF8(string(content[:min(len(content), 60)]), "?"))
			}
			object[name] = content
		default:
			return nil, invalid("field %q is not known", name)
		}
	}
	return json.Marshal(object)
}
