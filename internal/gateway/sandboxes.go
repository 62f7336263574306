// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// cellRequest is the body of POST /v1/sandboxes/{id}/execute.
type cellRequest struct {
	executionRequest
	// Session is main, or the name of a sibling.
	Session string `json:"session"`
}

// forkRequest is the body of POST /v1/sandboxes/{id}/fork.
type forkRequest struct {
	Session string `json:"session"`
	Count   int    `json:"count"`
}

// forkAnswer names the siblings.
type forkAnswer struct {
	Sessions []string `json:"sessions"`
}

// sandboxPatch is the body of PATCH /v1/sandboxes/{id}. What is left out stays as it is.
type sandboxPatch struct {
	// Lease counts from now.
	Lease leaseRequest `json:"lease"`
	// Metadata takes the place of all that was there.
	Metadata *map[string]string `json:"metadata"`
	Limits   limitsRequest      `json:"limits"`
}

// sandboxList is a page of sandboxes.
type sandboxList struct {
	Sandboxes []engine.Held `json:"sandboxes"`
	// Next is where the next page begins (before), and empty after the last.
	Next string `json:"next,omitempty"`
}

// inSandbox answers for a sandbox that is not there before anything else is looked at.
func (g *Gateway) inSandbox(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := g.Engine.Held(caller(r).Tenant, sandboxID(r)); err != nil {
			g.fail(w, r, err)
			return
		}
		next(w, r)
	}
}

func sandboxID(r *http.Request) sandbox.ID { return sandbox.ID(r.PathValue("id")) }

// postSandbox makes a sandbox that lives between executions. The body is that of an execution, without code.
func (g *Gateway) postSandbox(w http.ResponseWriter, r *http.Request) {
	asked, err := g.decodeOptional(w, r)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	held, err := g.Engine.Hold(r.Context(), asked.owned(r).Request)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/sandboxes/"+string(held.ID))
	g.json(w, http.StatusCreated, held)
}

func (g *Gateway) getSandbox(w http.ResponseWriter, r *http.Request) {
	held, err := g.Engine.Held(caller(r).Tenant, sandbox.ID(r.PathValue("id")))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, held)
}

// listSandboxes lists the caller's, by metadata.KEY=VALUE and state, in pages.
func (g *Gateway) listSandboxes(w http.ResponseWriter, r *http.Request) {
	filter, err := heldFilter(r.URL.Query())
	if err != nil {
		g.fail(w, r, err)
		return
	}
	found, next, err := g.Engine.ListHeld(caller(r).Tenant, filter)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, sandboxList{Sandboxes: found, Next: next})
}

func heldFilter(query url.Values) (filter engine.HeldFilter, err error) {
	filter.Metadata = make(map[string]string)
	var faults []string
	for name, values := range query {
		value := values[0]
		key, isMetadata := strings.CutPrefix(name, "metadata.")
		switch {
		case len(values) > 1:
			faults = append(faults, "the parameter "+clip(name)+" is given twice")
		case isMetadata:
			filter.Metadata[key] = value
		case name == "state":
			filter.State = engine.HeldState(value)
		case name == "before":
			filter.Before = value
		case name == "limit":
			if filter.Limit, err = strconv.Atoi(value); err != nil || filter.Limit == 0 {
				faults = append(faults, "limit is not a number of sandboxes: "+clip(value))
			}
		default:
			faults = append(faults, "unknown parameter "+clip(name)+": use state, metadata.KEY, limit and before")
		}
	}
	if len(faults) > 0 {
		return filter, &engine.Problem{Code: engine.CodeInvalid, Text: "the request is not valid", Faults: faults}
	}
	return filter, nil
}

// patchSandbox changes a living sandbox: all that was asked, or nothing.
func (g *Gateway) patchSandbox(w http.ResponseWriter, r *http.Request) {
	var patch sandboxPatch
	if err := g.decodeBody(w, r, &patch); err != nil {
		g.fail(w, r, err)
		return
	}
	change := engine.HeldChange{Idle: (*time.Duration)(patch.Lease.Idle), Hard: (*time.Duration)(patch.Lease.Hard), Metadata: patch.Metadata}
	var err error
	if change.Limits, err = patch.Limits.overrides(); err != nil {
		g.fail(w, r, invalid("%w", err))
		return
	}
	held, err := g.Engine.UpdateHeld(r.Context(), caller(r).Tenant, sandboxID(r), change)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, held)
}

func (g *Gateway) deleteSandbox(w http.ResponseWriter, r *http.Request) {
	if err := g.Engine.Release(caller(r).Tenant, sandbox.ID(r.PathValue("id"))); err != nil {
		g.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// postFork forks a session of a sandbox.
func (g *Gateway) postFork(w http.ResponseWriter, r *http.Request) {
	request := forkRequest{Count: 1}
	if !bodyless(r) {
		if err := g.decodeBody(w, r, &request); err != nil {
			g.fail(w, r, err)
			return
		}
	}
	names, err := g.Engine.ForkHeld(r.Context(), caller(r).Tenant, sandbox.ID(r.PathValue("id")), request.Session, request.Count)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusCreated, forkAnswer{Sessions: names})
}

// postCell runs a cell in a session; the answer is that of an execution, as a stream if asked.
func (g *Gateway) postCell(w http.ResponseWriter, r *http.Request) {
	var request cellRequest
	if err := g.decodeBody(w, r, &request); err != nil {
		g.fail(w, r, err)
		return
	}
	asked, err := request.asked()
	if err == nil {
		err = request.unheld()
	}
	if err != nil {
		g.fail(w, r, err)
		return
	}
	id := sandbox.ID(r.PathValue("id"))
	if refused := request.fixed(); refused != nil {
		g.fail(w, r, refused)
		return
	}
	run := func(ctx context.Context, sink engine.Sink, begun func(sandbox.ID)) (*engine.Execution, error) {
		return g.Engine.ExecuteIn(ctx, id, request.Session, asked.owned(r).Request, sink, begun)
	}
	g.follow(w, r, asked.stay, run) //nolint:contextcheck // the run may outlive the request
}

// fixed refuses what a sandbox has from its beginning.
func (c *cellRequest) fixed() error {
	rest := c.Limits
	rest.Wall = nil
	if rest != (limitsRequest{}) {
		return invalid("limits are those of the sandbox, but for wall, which may be lower for a cell: leave the others out")
	}
	if c.Policy != "" || c.Image != "" || c.Backend != "" || c.Language != "" || len(c.Files) > 0 || len(c.Env) > 0 || c.Detach || c.Fresh {
		return invalid("policy, image, backend, language, files, env and fresh are those of the sandbox, and a cell cannot be detached: leave them out")
	}
	return nil
}
