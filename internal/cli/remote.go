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
	known  chan struct{} // closes when the server has told the id
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
	return &remote{known: make(chan struct{}), client: &http.Client{Transport: &http.Transport{
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
	asked, leave := r.leaving(ctx)
	defer leave()
	post, err := http.NewRequestWithContext(asked, http.MethodPost, base+"/v1/executions", reader)
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
	x, err := r.follow(ctx, answer.Body, sink)
	if err == nil {
		return x, nil
	}
	if ctx.Err() != nil && r.id != "" {
		return r.canceled(ctx, answer.Body)
	}
	return nil, gone(ctx, err)
}

// leaving returns a context that ends a little after ctx: in that time the server may tell the id of a run that has just
// begun, without which nobody can ask what became of it.
func (r *remote) leaving(ctx context.Context) (context.Context, context.CancelFunc) {
	const patience = time.Second
	asked, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-r.known:
		case <-time.After(patience):
		case <-asked.Done():
		}
		cancel(context.Cause(ctx))
	})
	return asked, func() { stop(); cancel(nil) }
}

// canceled leaves a run, by which the server cancels it, and waits for its record: who interrupts a command gets the same
// as without a server.
func (r *remote) canceled(ctx context.Context, stream io.Closer) (*engine.Execution, error) {
	const (
		patience = 10 * time.Second
		pause    = 50 * time.Millisecond
	)
	_ = stream.Close() // only read
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), patience, errors.New("the server did not end it in time"))
	defer cancel()
	for {
		x, err := r.record(ctx)
		switch {
		case err == nil && x.Status.Over():
			return x, nil
		case err != nil:
			return nil, &engine.Problem{Code: engine.CodeCanceled, Err: cause, Text: fmt.Sprintf(
				"%v; the run was left and the server was asked to cancel it, but what became of it is not known: %v", cause, err)}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// record fetches the record of the run.
func (r *remote) record(ctx context.Context) (*engine.Execution, error) {
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/executions/"+string(r.id), nil)
	if err != nil {
		return nil, err
	}
	answer, err := r.client.Do(get)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, readProblem(answer)
	}
	x := &engine.Execution{}
	return x, json.NewDecoder(answer.Body).Decode(x)
}

// gone prefers the reason why we left to what that did to the connection.
func gone(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return &engine.Problem{Code: engine.CodeCanceled, Err: cause, Text: cause.Error() + " before anything was run"}
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
		"disk_bandwidth": q.Limits.DiskBandwidth,
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
func (r *remote) follow(ctx context.Context, body io.Reader, sink engine.Sink) (*engine.Execution, error) {
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
		x, err := r.handle(ctx, name, data, sink)
		if x != nil || err != nil {
			return x, err
		}
	}
}

// handle passes one event on; the last one is the record or a problem.
func (r *remote) handle(ctx context.Context, name string, data []byte, sink engine.Sink) (*engine.Execution, error) {
	var e struct {
		ID         sandbox.ID                 `json:"id"`
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
	if name == "started" && r.id == "" {
		r.id = e.ID
		close(r.known)
		return nil, nil //nolint:nilnil // it goes on
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
		return nil, nil //nolint:nilnil // an event of a newer server
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
