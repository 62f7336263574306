// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// executionRequest is the body of POST /v1/executions.
type executionRequest struct {
	Code     string                     `json:"code"`
	Name     string                     `json:"name"`
	Language string                     `json:"language"`
	Files    []fileRequest              `json:"files"`
	Policy   string                     `json:"policy"`
	Limits   limitsRequest              `json:"limits"`
	Image    string                     `json:"image"`
	Backend  string                     `json:"backend"`
	Env      map[string]string          `json:"env"`
	Inputs   map[string]json.RawMessage `json:"inputs"`
	Return   []string                   `json:"return"`
	// Fresh asks for an interpreter that was started for this run: a fork shares its hash seed with its siblings.
	Fresh bool `json:"fresh"`
	// Detach asks for an answer at once, and for the result later.
	Detach bool `json:"detach"`
	// CancelOnDisconnect is true unless it is said to be false.
	CancelOnDisconnect *bool `json:"cancel_on_disconnect"`

	// Metadata and Lease are those of a sandbox that lives between executions.
	Metadata map[string]string `json:"metadata"`
	Lease    leaseRequest      `json:"lease"`
}

// leaseRequest says how long a sandbox may stay unused, and how long it may live at all.
type leaseRequest struct {
	Idle *seconds `json:"idle"`
	Hard *seconds `json:"hard"`
}

func (l leaseRequest) terms(metadata map[string]string) engine.Terms {
	terms := engine.Terms{Metadata: metadata}
	if l.Idle != nil {
		terms.Idle = max(time.Duration(*l.Idle), 1) // zero is too short, and no default
	}
	if l.Hard != nil {
		terms.Hard = max(time.Duration(*l.Hard), 1)
	}
	return terms
}

// unheld refuses what only a sandbox that is held has.
func (q *executionRequest) unheld() error {
	if q.Metadata != nil || q.Lease != (leaseRequest{}) {
		return invalid("metadata and lease are those of a sandbox that lives between executions: leave them out, or make one with POST /v1/sandboxes")
	}
	return nil
}

type fileRequest struct {
	Name    string `json:"name"`
	Content []byte `json:"content_base64"`
}

// limitsRequest takes times as seconds or as "10s", sizes as bytes or as "512MiB".
type limitsRequest struct {
	Wall      *seconds `json:"wall"`
	CPUTime   *seconds `json:"cpu_time"`
	Memory    *size    `json:"memory"`
	CPUs      *float64 `json:"cpus"`
	MilliCPU  *int64   `json:"milli_cpu"`
	Processes *int64   `json:"processes"`
	OpenFiles *int64   `json:"open_files"`
	Disk      *size    `json:"disk"`
	Inodes    *int64   `json:"inodes"`
	Tmp       *size    `json:"tmp"`
	Output    *size    `json:"output"`
	// DiskBandwidth is in bytes a second.
	DiskBandwidth *size `json:"disk_bandwidth"`
}

type seconds time.Duration

// UnmarshalJSON reads a number of seconds or a text.
func (s *seconds) UnmarshalJSON(data []byte) error {
	text, err := scalar(data)
	if err != nil {
		return err
	}
	duration, err := policy.ParseDuration(text)
	*s = seconds(duration)
	return err
}

type size int64

// UnmarshalJSON reads a number of bytes or a text.
func (s *size) UnmarshalJSON(data []byte) error {
	text, err := scalar(data)
	if err != nil {
		return err
	}
	bytes, err := policy.ParseSize(text)
	*s = size(bytes)
	return err
}

// scalar returns a JSON number or string as text.
func scalar(data []byte) (string, error) {
	if len(data) > 0 && data[0] == '"' {
		var text string
		err := json.Unmarshal(data, &text)
		return text, err
	}
	return string(data), nil
}

func (l limitsRequest) overrides() (policy.Overrides, error) {
	o := policy.Overrides{
		Wall: (*time.Duration)(l.Wall), CPUTime: (*time.Duration)(l.CPUTime), Memory: (*int64)(l.Memory), MilliCPU: l.MilliCPU,
		Processes: l.Processes, OpenFiles: l.OpenFiles, Disk: (*int64)(l.Disk), Inodes: l.Inodes, Tmp: (*int64)(l.Tmp),
		Output: (*int64)(l.Output), DiskBandwidth: (*int64)(l.DiskBandwidth),
	}
	if l.CPUs == nil {
		return o, nil
	}
	if l.MilliCPU != nil {
		return o, errors.New("limits: give cpus or milli_cpu, not both")
	}
	milli, err := policy.ParseCPUs(fmt.Sprint(*l.CPUs))
	o.MilliCPU = &milli
	return o, err
}

// asked is a decoded request.
type asked struct {
	engine.Request
	// from is the request as it was sent.
	from   *executionRequest
	detach bool
	// stay says that the run goes on when the client leaves.
	stay bool
}

// owned says whose request it is.
func (a *asked) owned(r *http.Request) *asked {
	a.Who = caller(r)
	return a
}

func (q *executionRequest) asked() (*asked, error) {
	overrides, err := q.Limits.overrides()
	if err != nil {
		return nil, err
	}
	a := &asked{from: q, detach: q.Detach, stay: q.CancelOnDisconnect != nil && !*q.CancelOnDisconnect, Request: engine.Request{
		Code: q.Code, Name: q.Name, Language: q.Language, Policy: q.Policy, Limits: overrides, Image: q.Image,
		Backend: q.Backend, Env: q.Env, Inputs: q.Inputs, Return: q.Return, Fresh: q.Fresh,
		Terms: q.Lease.terms(q.Metadata),
	}}
	for _, file := range q.Files {
		a.Files = append(a.Files, sandbox.InputFile{Name: file.Name, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(file.Content)), nil
		}})
	}
	return a, nil
}

func invalid(format string, values ...any) error {
	err := fmt.Errorf(format, values...)
	return &engine.Problem{Code: engine.CodeInvalid, Text: err.Error(), Err: errors.Unwrap(err)}
}

// bodyless reports whether a request has no body at all, whatever kind it says that it has.
func bodyless(r *http.Request) bool { return r.ContentLength == 0 }

// decodeOptional is decode for a request whose every field has a default.
func (g *Gateway) decodeOptional(w http.ResponseWriter, r *http.Request) (*asked, error) {
	if bodyless(r) {
		return &asked{}, nil
	}
	return g.decode(w, r)
}

// decode reads the request's body, whatever its form.
func (g *Gateway) decode(w http.ResponseWriter, r *http.Request) (*asked, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readPatience)) // not supported by test recorders
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/json":
		body := g.bodies.meter(caller(r).Tenant, http.MaxBytesReader(w, r.Body, g.MaxJSON))
		a, err := g.decodeJSON(body)
		if err != nil {
			body.release()
			return nil, err
		}
		a.Release = body.release
		return a, nil
	case err == nil && kind == "multipart/form-data":
		return g.decodeForm(http.MaxBytesReader(w, r.Body, g.MaxRequest), parameters["boundary"], caller(r).Tenant)
	}
	return nil, invalid("the body's Content-Type is %q: send application/json or multipart/form-data", r.Header.Get("Content-Type"))
}

// decodeBody reads a JSON body into a request of its own form.
func (g *Gateway) decodeBody(w http.ResponseWriter, r *http.Request, into any) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readPatience)) // not supported by test recorders
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return invalid("the body's Content-Type is %q: send application/json", r.Header.Get("Content-Type"))
	}
	body := g.bodies.meter(caller(r).Tenant, http.MaxBytesReader(w, r.Body, g.MaxJSON))
	context.AfterFunc(r.Context(), body.release)
	return strictJSON(body, into)
}

func (g *Gateway) decodeJSON(body io.Reader) (*asked, error) {
	var q executionRequest
	if err := strictJSON(body, &q); err != nil {
		return nil, err
	}
	a, err := q.asked()
	if err != nil {
		return nil, invalid("%w", err)
	}
	return a, nil
}
