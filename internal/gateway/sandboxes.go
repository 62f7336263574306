// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net/http"

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
	g.json(w, http.StatusCreated, map[string][]string{"sessions": names})
}

// postCell runs a cell in a session; the answer is that of an execution, as a stream if asked.
func (g *Gateway) postCell(w http.ResponseWriter, r *http.Request) {
	var request cellRequest
	if err := g.decodeBody(w, r, &request); err != nil {
		g.fail(w, r, err)
		return
	}
	asked, err := request.asked()
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
