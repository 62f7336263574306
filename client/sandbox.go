// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Sandbox describes a sandbox that lives between executions.
type Sandbox struct {
	ID string `json:"id"`
	// State is idle or busy.
	State    string    `json:"state"`
	Backend  string    `json:"backend"`
	Image    string    `json:"image"`
	Policy   string    `json:"policy"`
	Language string    `json:"language"`
	Created  time.Time `json:"created"`
	// Sessions are the interpreters in it, by name, main first.
	Sessions []string          `json:"sessions"`
	Metadata map[string]string `json:"metadata"`
	Limits   map[string]Limit  `json:"limits"`
	Lease    Lease             `json:"lease"`
	// IdleUntil is when it ends if nobody uses it, Until when it ends in any case.
	IdleUntil time.Time `json:"idle_until"`
	Until     time.Time `json:"until"`
}

// Lease is how long a sandbox may stay unused, and how long it lives at all, in seconds.
type Lease struct {
	Idle float64 `json:"idle_seconds"`
	Hard float64 `json:"hard_seconds"`
}

// Sandboxes is what can be done with sandboxes that live between executions. A Problem expired says that a sandbox's
// lease was over, when and why; not_found that it was never made, or deleted.
type Sandboxes struct{ client *Client }

// Sandboxes returns what can be done with sandboxes.
func (c *Client) Sandboxes() Sandboxes { return Sandboxes{c} }

const sandboxes = "/v1/sandboxes"

func sandboxPath(id, more string) string { return sandboxes + "/" + url.PathEscape(id) + more }

// Create makes a sandbox. The request's Code, Inputs and Return are not used. Whoever makes one deletes it: unused, it
// takes its memory until its lease ends.
func (s Sandboxes) Create(ctx context.Context, request Request) (*Sandbox, error) {
	request.Code, request.Name, request.Inputs, request.Return, request.Stay = "", "", nil, nil, false
	content, err := form(request.body(), request.Files)
	if err != nil {
		return nil, err
	}
	made := &Sandbox{}
	if err := s.client.object(ctx, call{method: http.MethodPost, path: sandboxes, body: content}, made); err != nil {
		return nil, err
	}
	return made, nil
}

// Get describes a sandbox that is alive.
func (s Sandboxes) Get(ctx context.Context, id string) (*Sandbox, error) {
	found := &Sandbox{}
	if err := s.client.object(ctx, call{method: http.MethodGet, path: sandboxPath(id, "")}, found); err != nil {
		return nil, err
	}
	return found, nil
}

// Delete ends a sandbox with all that runs in it. When it returns nil nothing of it is left.
func (s Sandboxes) Delete(ctx context.Context, id string) error {
	return s.client.object(ctx, call{method: http.MethodDelete, path: sandboxPath(id, "")}, nil)
}

// Execute runs a cell in a session and returns its record. Variables stay, unless the record's StateReset says otherwise;
// a caller who leaves has the cell interrupted, and the variables stay if it heeds that.
func (s Sandboxes) Execute(ctx context.Context, id string, cell Cell) (*Execution, error) {
	content, err := jsonBody(cell.body())
	if err != nil {
		return nil, err
	}
	return s.client.execution(ctx, call{path: sandboxPath(id, "/execute"), body: content})
}

// Stream is Execute with what comes out handed to each as it comes, like Client.Stream.
func (s Sandboxes) Stream(ctx context.Context, id string, cell Cell, each func(Event) error) (*Execution, error) {
	content, err := jsonBody(cell.body())
	if err != nil {
		return nil, err
	}
	return s.client.stream(ctx, call{path: sandboxPath(id, "/execute"), body: content}, each)
}

// Fork copies a session, with all its variables, count times (1 to 32), and returns the names of the copies. An empty
// session is main. Only Python can be forked.
func (s Sandboxes) Fork(ctx context.Context, id, session string, count int) ([]string, error) {
	content, err := jsonBody(struct {
		Session string `json:"session,omitempty"`
		Count   int    `json:"count"`
	}{session, count})
	if err != nil {
		return nil, err
	}
	var made struct {
		Sessions []string `json:"sessions"`
	}
	if err := s.client.object(ctx, call{method: http.MethodPost, path: sandboxPath(id, "/fork"), body: content}, &made); err != nil {
		return nil, err
	}
	return made.Sessions, nil
}
