// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// client is the Subject that asks a server for a fresh sandbox over HTTP, with a stream of events.
type client struct {
	address, key, image string
	wall                time.Duration
	now                 func() time.Time
	http                *http.Client
}

func newClient(address, key, image string, wall time.Duration, now func() time.Time) *client {
	const mostIdle = 256
	return &client{
		address: strings.TrimSuffix(address, "/"), key: key, image: image, wall: wall, now: now,
		http: &http.Client{Transport: &http.Transport{MaxIdleConns: mostIdle, MaxIdleConnsPerHost: mostIdle}},
	}
}

func (c *client) Name() string { return Self }

func (c *client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Self is the name of this program as a subject.
const Self = "glovebox"

func (c *client) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Content-Type", "application/json")
	return c.http.Do(request)
}

// Run asks for one execution and reads its stream to the end. The server ends the stream when the sandbox is gone and
// its files are read.
func (c *client) Run(ctx context.Context, work Work, began time.Time) Sample {
	ctx, cancel := context.WithTimeoutCause(ctx, runPatience, errTooLong)
	defer cancel()
	return c.post(ctx, "/v1/executions", map[string]any{
		"code": work.Code, "image": c.image, "limits": map[string]any{"wall": c.wall.String()},
	}, work, began)
}

// post asks for an execution and reads its stream to the end.
func (c *client) post(ctx context.Context, path string, request map[string]any, work Work, began time.Time) Sample {
	body, err := json.Marshal(request)
	if err != nil {
		return failed(err)
	}
	answer, err := c.request(ctx, http.MethodPost, path, body)
	if err != nil {
		return failed(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16)) // what there is
		s := failed(fmt.Errorf("the server answered %s: %s", answer.Status, lastLine(string(text))))
		s.Rejected = answer.StatusCode == http.StatusTooManyRequests
		s.End = c.now().Sub(began)
		return s
	}
	run, err := follow(answer.Body, c.now)
	s := Sample{Result: run.last.Sub(began), End: c.now().Sub(began), Faults: unknownFaults, Output: run.stdout, Err: err}
	s.Ready = run.record.Usage.PoolHit
	if err == nil {
		s.Err = run.check(work)
	}
	return s
}

// followed is what a stream of events told.
type followed struct {
	stdout string
	// last is when the last piece of output came, or else the end.
	last time.Time
	done bool
	// record is the part of the final record that is looked at.
	record struct {
		Status  string `json:"status"`
		Message string `json:"message"`
		Usage   struct {
			PoolHit bool `json:"pool_hit"`
		} `json:"usage"`
	}
	problem string
}

func (f *followed) check(work Work) error {
	switch {
	case f.problem != "":
		return fmt.Errorf("the server gave up: %s", f.problem)
	case !f.done:
		return errors.New("the stream ended before its last event")
	case f.record.Status != "ok":
		return fmt.Errorf("the execution ended as %s: %s", f.record.Status, f.record.Message)
	}
	return work.check(f.stdout)
}

// follow reads Server-Sent Events of one data line each, as this server sends them.
func follow(body io.Reader, now func() time.Time) (*followed, error) {
	f := &followed{}
	var name string
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			if f.last.IsZero() {
				f.last = now()
			}
			return f, nil
		}
		if err != nil {
			return f, fmt.Errorf("read the stream: %w", err)
		}
		line = strings.TrimSuffix(line, "\n")
		if value, found := strings.CutPrefix(line, "event: "); found {
			name = value
		}
		if value, found := strings.CutPrefix(line, "data: "); found {
			if err := f.event(name, value, now()); err != nil {
				return f, err
			}
		}
	}
}

func (f *followed) event(name, data string, at time.Time) error {
	var err error
	switch name {
	case "stdout":
		var text struct {
			Text string `json:"text"`
		}
		err = json.Unmarshal([]byte(data), &text)
		f.stdout += text.Text
		f.last = at
	case "stderr", "display", "result", "error", "value":
		f.last = at
	case "done":
		f.done = true
		err = json.Unmarshal([]byte(data), &f.record)
	case "problem":
		f.problem = data
	}
	if err != nil {
		return fmt.Errorf("event %s: %w", name, err)
	}
	return nil
}

// held is a sandbox that lives between executions.
type held struct {
	client *client
	id     string
}

// hold makes a sandbox; false means that the server has no such thing.
func (c *client) hold(ctx context.Context) (*held, bool, error) {
	var made struct {
		ID string `json:"id"`
	}
	status, err := c.call(ctx, http.MethodPost, "/v1/sandboxes", map[string]any{"image": c.image}, &made)
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		return nil, false, nil
	}
	return &held{client: c, id: made.ID}, err == nil, err
}

// call sends a request of one JSON object and reads one.
func (c *client) call(ctx context.Context, method, path string, request, into any) (int, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	answer, err := c.request(ctx, method, path, body)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	switch {
	case err != nil:
		return answer.StatusCode, err
	case answer.StatusCode >= http.StatusBadRequest:
		return answer.StatusCode, fmt.Errorf("the server answered %s: %s", answer.Status, lastLine(string(text)))
	case into == nil:
		return answer.StatusCode, nil
	}
	return answer.StatusCode, json.Unmarshal(text, into)
}

// run runs a cell in the sandbox's main session.
func (h *held) run(ctx context.Context, work Work, began time.Time) Sample {
	ctx, cancel := context.WithTimeoutCause(ctx, runPatience, errTooLong)
	defer cancel()
	return h.client.post(ctx, "/v1/sandboxes/"+h.id+"/execute", map[string]any{"code": work.Code}, work, began)
}

// fork forks the main session once.
func (h *held) fork(ctx context.Context, began time.Time) Sample {
	var made struct {
		Sessions []string `json:"sessions"`
	}
	_, err := h.client.call(ctx, http.MethodPost, "/v1/sandboxes/"+h.id+"/fork", map[string]any{"count": 1}, &made)
	took := h.client.now().Sub(began)
	if err == nil && len(made.Sessions) != 1 {
		err = fmt.Errorf("%d siblings in place of one", len(made.Sessions))
	}
	return Sample{Result: took, End: took, Faults: unknownFaults, Err: err}
}

func (h *held) release(ctx context.Context) error {
	_, err := h.client.call(ctx, http.MethodDelete, "/v1/sandboxes/"+h.id, struct{}{}, nil)
	return err
}

// healthy asks whether the server is there.
func (c *client) healthy(ctx context.Context) error {
	answer, err := c.request(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answered %s", answer.Status)
	}
	return nil
}
