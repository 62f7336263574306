// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// Keeper is what the gateway needs of what is kept.
type Keeper interface {
	List(ctx context.Context, tenant string, page engine.Page) (engine.List, error)
	Code(ctx context.Context, who *auth.Principal, id sandbox.ID) (string, error)
	Delete(ctx context.Context, who *auth.Principal, id sandbox.ID) error
	DeleteTenant(ctx context.Context, who *auth.Principal, tenant string) error
}

// pageLimit is how many a page has when the client does not say.
const pageLimit = 50

// pageOf reads which page a client wants.
func pageOf(r *http.Request) (engine.Page, error) {
	page := engine.Page{Limit: pageLimit}
	var faults []string
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		faults = append(faults, "the query cannot be read")
	}
	for name, values := range query {
		switch {
		case len(values) > 1:
			faults = append(faults, fmt.Sprintf("%.40q is given twice", name))
		case name == "before":
			page.Before = values[0]
		case name == "status":
			page.Status = values[0]
		case name == "limit":
			if page.Limit, err = strconv.Atoi(values[0]); err != nil {
				faults = append(faults, fmt.Sprintf("limit %.40q is not a number", values[0]))
			}
		default:
			faults = append(faults, fmt.Sprintf("parameter %.40q is not known: there are before, limit and status", name))
		}
	}
	if faults != nil {
		return page, &engine.Problem{Code: engine.CodeInvalid, Text: "the request is not valid", Faults: faults}
	}
	return page, nil
}

// listExecutions lists the executions of the caller's tenant, the newest first.
func (g *Gateway) listExecutions(w http.ResponseWriter, r *http.Request) {
	page, err := pageOf(r)
	var list engine.List
	if err == nil {
		list, err = g.Engine.List(r.Context(), caller(r).Tenant, page)
	}
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, list)
}

// codeAnswer is the code of an execution.
type codeAnswer struct {
	Code string `json:"code"`
}

// getCode answers with the code of an execution; that it was read is recorded.
func (g *Gateway) getCode(w http.ResponseWriter, r *http.Request) {
	source, err := g.Engine.Code(r.Context(), caller(r), sandbox.ID(r.PathValue("id")))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, codeAnswer{source})
}

// deleteTenant removes everything of a tenant.
func (g *Gateway) deleteTenant(w http.ResponseWriter, r *http.Request) {
	if err := g.Engine.DeleteTenant(r.Context(), caller(r), r.PathValue("tenant")); err != nil {
		g.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
