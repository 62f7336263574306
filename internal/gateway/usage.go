// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net/http"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/usage"
)

// getUsage answers with what the caller's tenant used; who administers may ask for another.
func (g *Gateway) getUsage(w http.ResponseWriter, r *http.Request) {
	who, query := caller(r), r.URL.Query()
	tenant := query.Get("tenant")
	if tenant == "" {
		tenant = who.Tenant
	}
	from, to, err := usage.Period(query.Get("from"), query.Get("to"), time.Now())
	switch {
	case g.Usage == nil:
		g.problem(w, problem{Status: http.StatusNotFound, Code: engine.CodeNotFound, Detail: "this server counts no usage"})
		return
	case tenant != who.Tenant && !who.May(auth.ScopeAdmin):
		g.problem(w, problem{Status: http.StatusForbidden, Code: "forbidden", Detail: "this key lacks the scope admin, which another tenant's usage needs"})
		return
	case !auth.ValidTenant(tenant):
		g.fail(w, r, invalid("tenant is not the name of one: use lower-case letters, digits and hyphens"))
		return
	case err != nil:
		g.fail(w, r, invalid("%s", err.Error()))
		return
	}
	report, err := g.Usage(r.Context(), tenant, from, to)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, report)
}
