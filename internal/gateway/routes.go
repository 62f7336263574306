// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net/http"

	"glovebox/internal/auth"
)

// route is one thing that a client can do.
type route struct {
	method, path string
	// scope is what a caller must have; empty is open to everybody.
	scope  auth.Scope
	handle http.HandlerFunc
}

// table is every route there is. To add one: a row here, a handler in the file of its noun, and a line in the user guide.
func (g *Gateway) table() []route {
	return []route{
		{"GET", "/healthz", "", g.health},
		{"GET", "/readyz", "", g.ready},
		{"GET", "/metrics", auth.ScopeAdmin, g.metrics},
		{"GET", "/v1/usage", auth.ScopeRun, g.getUsage},
		{"POST", "/v1/executions", auth.ScopeRun, g.postExecution},
		{"GET", "/v1/executions", auth.ScopeRun, g.listExecutions},
		{"GET", "/v1/executions/{id}", auth.ScopeRun, g.getExecution},
		{"DELETE", "/v1/executions/{id}", auth.ScopeRun, g.deleteExecution},
		{"GET", "/v1/executions/{id}/output", auth.ScopeRun, g.getOutput},
		{"GET", "/v1/executions/{id}/artifacts", auth.ScopeRun, g.getArtifacts},
		{"GET", "/v1/executions/{id}/artifacts/{name...}", auth.ScopeRun, g.getArtifact},
		{"GET", "/v1/executions/{id}/code", auth.ScopeAudit, g.getCode},
		{"DELETE", "/v1/tenants/{tenant}", auth.ScopeAdmin, g.deleteTenant},
		{"POST", "/v1/sandboxes", auth.ScopeSandboxes, g.postSandbox},
		{"GET", "/v1/sandboxes/{id}", auth.ScopeSandboxes, g.getSandbox},
		{"DELETE", "/v1/sandboxes/{id}", auth.ScopeSandboxes, g.deleteSandbox},
		{"POST", "/v1/sandboxes/{id}/execute", auth.ScopeSandboxes, g.postCell},
		{"POST", "/v1/sandboxes/{id}/fork", auth.ScopeSandboxes, g.postFork},
	}
}

// admitted lets only callers with the route's scope through, and those who start something only as fast as they may.
func (g *Gateway) admitted(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route.matched(r)
		if route.scope != "" && !caller(r).May(route.scope) {
			g.problem(w, problem{
				Status: http.StatusForbidden, Code: "forbidden",
				Detail: "this key lacks the scope " + string(route.scope) + ": use one that has it (`glovebox keys create --scopes`)",
			})
			return
		}
		if route.method == http.MethodPost {
			leave := g.fair(w, r)
			if leave == nil {
				return
			}
			defer leave()
		}
		route.handle(w, r)
	})
}

type callerKey struct{}

func withCaller(r *http.Request, who *auth.Principal) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, who))
}

// caller is who a request is carried out for. One that nobody let in may nothing.
func caller(r *http.Request) *auth.Principal {
	if who, ok := r.Context().Value(callerKey{}).(*auth.Principal); ok {
		return who
	}
	return &auth.Principal{}
}
