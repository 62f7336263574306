// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"

	"glovebox/internal/engine"
)

// health says that the process lives; during a drain too.
func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	g.json(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready says whether new work would be taken. What is wrong in detail is in the log: anybody may ask.
func (g *Gateway) ready(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		Status string            `json:"status"`
		Checks map[string]string `json:"checks"`
	}{"ready", map[string]string{}}
	status := http.StatusOK
	if g.Ready != nil {
		for name, fault := range g.readiness.ask(r.Context(), g.Ready) {
			answer.Checks[name] = "ok"
			if fault != nil {
				answer.Checks[name] = "failed"
				answer.Status, status = "not ready", http.StatusServiceUnavailable
				g.Log.WarnContext(r.Context(), "not ready", "check", name, "error", fault)
			}
		}
	}
	if status != http.StatusOK {
		w.Header().Set("Retry-After", retryAfter)
	}
	g.json(w, status, answer)
}

// metrics answers with the server's metrics.
func (g *Gateway) metrics(w http.ResponseWriter, r *http.Request) {
	if g.Metrics == nil {
		g.problem(w, problem{Status: http.StatusNotFound, Code: engine.CodeNotFound, Detail: "this server keeps no metrics"})
		return
	}
	g.allowWrite(w)
	g.Metrics.ServeHTTP(w, r)
}
