// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

const executions = "/v1/executions"

func executionPath(id string) string { return executions + "/" + url.PathEscape(id) }

// Run runs code in a sandbox of its own, and returns its record when nothing of it is alive any more. A program that
// failed is no error. When the service failed in its midst, the error is a Problem with the code infra, whose Execution
// is returned as well.
func (c *Client) Run(ctx context.Context, request Request) (*Execution, error) {
	content, err := form(request.body(), request.Files)
	if err != nil {
		return nil, err
	}
	return c.execution(ctx, call{path: executions, body: content})
}

// execution posts a request that is answered with a record.
func (c *Client) execution(ctx context.Context, asked call) (*Execution, error) {
	x := &Execution{}
	asked.method = http.MethodPost
	if err := c.object(ctx, asked, x); err != nil {
		return begun(err), err
	}
	return x, nil
}

// begun returns the record of an execution in whose midst the service failed.
func begun(err error) *Execution {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem.Execution
	}
	return nil
}

// Stream is Run with what comes out handed to each as it comes, in order. When each returns an error the execution is
// left, and the error returned.
func (c *Client) Stream(ctx context.Context, request Request, each func(Event) error) (*Execution, error) {
	content, err := form(request.body(), request.Files)
	if err != nil {
		return nil, err
	}
	return c.stream(ctx, call{path: executions, body: content}, each)
}

// Start has code run, and returns its record, which is not over, at once.
func (c *Client) Start(ctx context.Context, request Request) (*Execution, error) {
	b := request.body()
	b.Detach, b.CancelOnDisconnect = true, nil
	content, err := form(b, request.Files)
	if err != nil {
		return nil, err
	}
	return c.execution(ctx, call{path: executions, body: content})
}

// Get returns the record of an execution as it is now. A Problem not_found means that it was never there, or its time is
// over.
func (c *Client) Get(ctx context.Context, id string) (*Execution, error) {
	x := &Execution{}
	if err := c.object(ctx, call{method: http.MethodGet, path: executionPath(id)}, x); err != nil {
		return nil, err
	}
	return x, nil
}

// The pauses of Wait: the first one, and the longest.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = time.Second
)

// Wait returns the record of an execution when it is over. The execution goes on when ctx ends.
func (c *Client) Wait(ctx context.Context, id string) (*Execution, error) {
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		x, err := c.Get(ctx, id)
		if err != nil || x.Status.Over() {
			return x, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return x, context.Cause(ctx)
		}
	}
}

// Delete ends an execution if it still runs, and removes its record and its files.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.object(ctx, call{method: http.MethodDelete, path: executionPath(id)}, nil)
}
