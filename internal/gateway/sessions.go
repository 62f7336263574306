// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"

	"glovebox/internal/engine"
)

// sessionRequest is the body of POST /v1/sandboxes/{id}/sessions; every field has a default.
type sessionRequest struct {
	Name     string            `json:"name"`
	Language string            `json:"language"`
	Dir      string            `json:"dir"`
	Env      map[string]string `json:"env"`
}

// sessionList is what a sandbox has of them.
type sessionList struct {
	Sessions []engine.Session `json:"sessions"`
}

func (g *Gateway) postSession(w http.ResponseWriter, r *http.Request) {
	var q sessionRequest
	if !bodyless(r) {
		if err := g.decodeBody(w, r, &q); err != nil {
			g.fail(w, r, err)
			return
		}
	}
	spec := engine.SessionSpec{Name: q.Name, Language: q.Language, Dir: q.Dir, Env: q.Env}
	session, err := g.Engine.OpenSession(r.Context(), caller(r).Tenant, sandboxID(r), spec)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusCreated, session)
}

func (g *Gateway) listSessions(w http.ResponseWriter, r *http.Request) {
	sessions, err := g.Engine.SessionsIn(caller(r).Tenant, sandboxID(r))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, sessionList{sessions})
}

func (g *Gateway) interruptSession(w http.ResponseWriter, r *http.Request) {
	g.done(w, r, g.Engine.InterruptSession(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("name")))
}

func (g *Gateway) restartSession(w http.ResponseWriter, r *http.Request) {
	session, err := g.Engine.RestartSession(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("name"))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, session)
}

func (g *Gateway) deleteSession(w http.ResponseWriter, r *http.Request) {
	g.done(w, r, g.Engine.CloseSession(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("name")))
}

// done answers with nothing, or with what went wrong.
func (g *Gateway) done(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		g.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
