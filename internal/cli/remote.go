// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// remote runs an execution in the server that uses the same data folder, over its socket.
type remote struct {
	client *http.Client
	id     sandbox.ID
}

const base = "http://localhost"

// dialServer returns nil when no server answers: then the command does the work itself.
func dialServer(ctx context.Context, c config.Config) runner {
	const patience = 2 * time.Second
	path := daemon.SocketPath(c.Data)
	dial := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: patience}).DialContext(ctx, "unix", path)
	}
	conn, err := dial(ctx)
	if err != nil || conn.Close() != nil {
		return nil
	}
	return &remote{client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

func (r *remote) close() error {
	r.client.CloseIdleConnections()
	return nil
}

// run sends the request as a form, so that files are streamed, and follows the events.
func (r *remote) run(ctx context.Context, request engine.Request, sink engine.Sink) (*engine.Execution, error) {
	reader, writer := io.Pipe()
	form := multipart.NewWriter(writer)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		writer.CloseWithError(errors.Join(writeForm(form, request), form.Close()))
	}()
	defer func() { <-sent }()
	defer reader.CloseWithError(io.ErrClosedPipe)
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/executions", reader)
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", form.FormDataContentType())
	post.Header.Set("Accept", "text/event-stream")
	answer, err := r.client.Do(post)
	if err != nil {
		return nil, gone(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, readProblem(answer)
	}
	x, err := follow(ctx, answer.Body, sink)
	if err != nil {
		return nil, gone(ctx, err)
	}
	r.id = x.ID
	return x, nil
}

// gone prefers the reason why we left to what that did to the connection.
func gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &exitError{Code: engine.ExitCanceled, Err: context.Cause(ctx)}
	}
	if _, ok := errors.AsType[*engine.Problem](err); ok {
		return err
	}
	return fmt.Errorf("the server's answer ended early: %w; its log may say more, and --no-server does without it", err)
}

// wireRequest is the field request of the form.
type wireRequest struct {
	Code     string                     `json:"code"`
	Name     string                     `json:"name,omitempty"`
	Language string                     `json:"language,omitempty"`
	Policy   string                     `json:"policy,omitempty"`
	Image    string                     `json:"image,omitempty"`
	Backend  string                     `json:"backend,omitempty"`
	Limits   map[string]any             `json:"limits,omitempty"`
	Env      map[string]string          `json:"env,omitempty"`
	Inputs   map[string]json.RawMessage `json:"inputs,omitempty"`
	Return   []string                   `json:"return,omitempty"`
}

func writeForm(form *multipart.Writer, q engine.Request) error {
	limits := map[string]any{}
	for name, value := range map[string]*int64{
		"memory": q.Limits.Memory, "milli_cpu": q.Limits.MilliCPU, "processes": q.Limits.Processes, "open_files": q.Limits.OpenFiles,
		"disk": q.Limits.Disk, "inodes": q.Limits.Inodes, "tmp": q.Limits.Tmp, "output": q.Limits.Output,
	} {
		if value != nil {
			limits[name] = *value
		}
	}
	for name, value := range map[string]*time.Duration{"wall": q.Limits.Wall, "cpu_time": q.Limits.CPUTime} {
		if value != nil {
			limits[name] = value.String()
		}
	}
	body, err := json.Marshal(wireRequest{
		Code: q.Code, Name: q.Name, Language: q.Language, Policy: q.Policy, Image: q.Image, Backend: q.Backend, Limits: limits,
		Env: q.Env, Inputs: q.Inputs, Return: q.Return,
	})
	if err != nil {
		return err
	}
	if err := form.WriteField("request", string(body)); err != nil {
		return err
	}
	for _, file := range q.Files {
		if err := writeFile(form, file); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(form *multipart.Writer, file sandbox.InputFile) error {
	content, err := file.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	// The file name goes in the extended form alone, which takes every character.
	disposition := strings.Replace(artifact.ContentDisposition(file.Name), "attachment", `form-data; name="file"`, 1)
	part, err := form.CreatePart(map[string][]string{
		"Content-Disposition": {strings.Replace(disposition, disposition[strings.Index(disposition, "filename="):strings.Index(disposition, "filename*=")], "", 1)},
		"Content-Type":        {"application/octet-stream"},
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(part, content)
	return err
}

// readProblem makes an error of a problem document.
func readProblem(answer *http.Response) error {
	var document struct {
		Code      engine.Code       `json:"code"`
		Detail    string            `json:"detail"`
		Errors    []string          `json:"errors"`
		Execution *engine.Execution `json:"execution"`
	}
	const most = 1 << 20
	if err := json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&document); err != nil || document.Code == "" {
		return fmt.Errorf("the server answered %s", answer.Status)
	}
	return &engine.Problem{Code: document.Code, Text: document.Detail, Faults: document.Errors}
}

// follow reads the stream of events to its end.
func follow(ctx context.Context, body io.Reader, sink engine.Sink) (*engine.Execution, error) {
	lines := bufio.NewReader(body)
	name := ""
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, errors.Join(err, io.ErrUnexpectedEOF)
		}
		line = bytes.TrimRight(line, "\r\n")
		if value, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(value)
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		x, err := handle(ctx, name, data, sink)
		if x != nil || err != nil {
			return x, err
		}
	}
}

// handle passes one event on; the last one is the record or a problem.
func handle(ctx context.Context, name string, data []byte, sink engine.Sink) (*engine.Execution, error) {
	var e struct {
		Text       string                     `json:"text"`
		Base64     []byte                     `json:"base64"`
		Code       string                     `json:"code"`
		Name       string                     `json:"name"`
		Value      string                     `json:"value"`
		Traceback  string                     `json:"traceback"`
		Data       map[string]json.RawMessage `json:"data"`
		Background bool                       `json:"background"`
	}
	switch name {
	case "done":
		x := &engine.Execution{}
		return x, json.Unmarshal(data, x)
	case "problem":
		return nil, readProblem(&http.Response{Body: io.NopCloser(bytes.NewReader(data))})
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	event := sandbox.Event{Kind: sandbox.EventKind(name), Background: e.Background}
	switch event.Kind {
	case sandbox.EventStdout, sandbox.EventStderr:
		event.Text = []byte(e.Text)
		if len(e.Base64) > 0 {
			event.Text = e.Base64
		}
	case sandbox.EventDisplay, sandbox.EventResult, sandbox.EventValue:
		event.Name, event.Bundle = e.Name, &sandbox.Bundle{Data: e.Data}
	case sandbox.EventError:
		event.Fault = &sandbox.Fault{Name: e.Name, Value: e.Value, Traceback: e.Traceback}
	case sandbox.EventNotice:
		event.Notice = &sandbox.Notice{Code: e.Code, Text: e.Text}
	default:
		return nil, nil //nolint:nilnil // an event of a newer server, or the id
	}
	return nil, sink.Event(ctx, event)
}

// artifact downloads a file.
func (r *remote) artifact(ctx context.Context, id sandbox.ID, name string) (io.ReadCloser, error) {
	var path []string
	for part := range strings.SplitSeq(name, "/") {
		path = append(path, url.PathEscape(part))
	}
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/executions/"+string(id)+"/artifacts/"+strings.Join(path, "/"), nil)
	if err != nil {
		return nil, err
	}
	answer, err := r.client.Do(get)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		return nil, readProblem(answer)
	}
	return answer.Body, nil
}
