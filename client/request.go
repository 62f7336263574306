// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"time"
)

// Request asks for an execution, or for a sandbox: then without Code. The zero value of every field means the server's
// default.
type Request struct {
	// Code is the source text: UTF-8, at most 1 MiB.
	Code string
	// Name stands for the code's file in tracebacks.
	Name string
	// Language is python, javascript, typescript or bash.
	Language string
	// Policy is standard, tight or strict.
	Policy string
	Limits Limits
	// Image is the name of the root file system.
	Image   string
	Backend string
	// Env are environment variables: at most 64 of 32 KiB each.
	Env map[string]string
	// Files are shown read-only to the code, in its working folder: at most 64. Their contents are streamed.
	Files []File
	// Inputs become variables before the code runs, at most 64 with 4 MiB together; Return names variables whose values
	// come back in Execution.Values.
	Inputs map[string]json.RawMessage
	Return []string
	// Fresh asks for an interpreter that is started for the run, and not forked from a warm one.
	Fresh bool
	// Stay lets the execution go on when the caller leaves.
	Stay bool
}

// Limits are asked for below the server's maxima. Nil is the policy's own; there is no word for unlimited.
type Limits struct {
	// Wall bounds the time by the clock, CPUTime that of all processors together.
	Wall    *time.Duration
	CPUTime *time.Duration
	// Memory is in bytes, of all processes together.
	Memory *int64
	// MilliCPU is in thousandths of a processor.
	MilliCPU *int64
	// Processes counts threads, too.
	Processes *int64
	// OpenFiles is of each process.
	OpenFiles *int64
	// Disk and Tmp, in bytes, bound the working folder and /tmp; Inodes bounds the files in the first.
	Disk   *int64
	Inodes *int64
	Tmp    *int64
	// Output is how many bytes of each stream are kept.
	Output *int64
	// DiskBandwidth is in bytes a second.
	DiskBandwidth *int64
}

// File is an upload.
type File struct {
	// Name is one path element, in any script.
	Name string
	// Open yields the content. It is called once for each attempt to send the request.
	Open func() (io.ReadCloser, error)
}

// Cell asks for code to be run in a session of a sandbox.
type Cell struct {
	Code string
	// Name stands for the code's file in tracebacks.
	Name string
	// Session is main, the one that a sandbox begins with, or the name of another one.
	Session string
	// Wall bounds this cell, when that is less than the sandbox's own limit; nil is the latter.
	Wall *time.Duration
	// Inputs and Return are those of a Request.
	Inputs map[string]json.RawMessage
	Return []string
	// Stay lets the cell go on when the caller leaves.
	Stay bool
}

// body is the JSON of Request and Cell.
type body struct {
	Code               string                     `json:"code,omitempty"`
	Name               string                     `json:"name,omitempty"`
	Session            string                     `json:"session,omitempty"`
	Language           string                     `json:"language,omitempty"`
	Policy             string                     `json:"policy,omitempty"`
	Limits             *Limits                    `json:"limits,omitempty"`
	Image              string                     `json:"image,omitempty"`
	Backend            string                     `json:"backend,omitempty"`
	Env                map[string]string          `json:"env,omitempty"`
	Inputs             map[string]json.RawMessage `json:"inputs,omitempty"`
	Return             []string                   `json:"return,omitempty"`
	Fresh              bool                       `json:"fresh,omitempty"`
	Detach             bool                       `json:"detach,omitempty"`
	CancelOnDisconnect *bool                      `json:"cancel_on_disconnect,omitempty"`
}

// MarshalJSON writes limits as the server reads them: times as text, sizes as numbers.
func (l Limits) MarshalJSON() ([]byte, error) {
	duration := func(d *time.Duration) *string {
		if d == nil {
			return nil
		}
		text := d.String()
		return &text
	}
	return json.Marshal(struct {
		Wall          *string `json:"wall,omitempty"`
		CPUTime       *string `json:"cpu_time,omitempty"`
		Memory        *int64  `json:"memory,omitempty"`
		MilliCPU      *int64  `json:"milli_cpu,omitempty"`
		Processes     *int64  `json:"processes,omitempty"`
		OpenFiles     *int64  `json:"open_files,omitempty"`
		Disk          *int64  `json:"disk,omitempty"`
		Inodes        *int64  `json:"inodes,omitempty"`
		Tmp           *int64  `json:"tmp,omitempty"`
		Output        *int64  `json:"output,omitempty"`
		DiskBandwidth *int64  `json:"disk_bandwidth,omitempty"`
	}{
		duration(l.Wall), duration(l.CPUTime), l.Memory, l.MilliCPU, l.Processes, l.OpenFiles, l.Disk, l.Inodes, l.Tmp, l.Output,
		l.DiskBandwidth,
	})
}

func (r Request) body() body {
	b := body{
		Code: r.Code, Name: r.Name, Language: r.Language, Policy: r.Policy, Image: r.Image, Backend: r.Backend, Env: r.Env,
		Inputs: r.Inputs, Return: r.Return, Fresh: r.Fresh, CancelOnDisconnect: leaving(r.Stay),
	}
	if r.Limits != (Limits{}) {
		b.Limits = &r.Limits
	}
	return b
}

func (c Cell) body() body {
	b := body{
		Code: c.Code, Name: c.Name, Session: c.Session, Inputs: c.Inputs, Return: c.Return, CancelOnDisconnect: leaving(c.Stay),
	}
	if c.Wall != nil {
		b.Limits = &Limits{Wall: c.Wall}
	}
	return b
}

// leaving is what becomes of the run of a caller who leaves: nothing said means that it ends.
func leaving(stay bool) *bool {
	if !stay {
		return nil
	}
	cancel := false
	return &cancel
}

// form sends a body with files as a form, so that their contents are streamed.
func form(b body, files []File) (func() (io.ReadCloser, string), error) {
	if len(files) == 0 {
		return jsonBody(b)
	}
	encoded, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return func() (io.ReadCloser, string) {
		reader, writer := io.Pipe()
		parts := multipart.NewWriter(writer)
		go func() { writer.CloseWithError(errors.Join(writeForm(parts, encoded, files), parts.Close())) }()
		return reader, parts.FormDataContentType()
	}, nil
}

func writeForm(parts *multipart.Writer, request []byte, files []File) error {
	field, err := parts.CreateFormField("request")
	if err != nil {
		return err
	}
	if _, err := field.Write(request); err != nil {
		return err
	}
	for _, file := range files {
		if err := writeFile(parts, file); err != nil {
			return fmt.Errorf("send file %s: %w", file.Name, err)
		}
	}
	return nil
}

func writeFile(parts *multipart.Writer, file File) error {
	content, err := file.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	part, err := parts.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {mime.FormatMediaType("form-data", map[string]string{"name": "file", "filename": file.Name})},
		"Content-Type":        {"application/octet-stream"},
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(part, content)
	return err
}
