// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
)

// DefaultPerMinute is how many requests that start something a key may send a minute where nobody says.
const DefaultPerMinute = 12_000

// tenantPosts counts the requests of each tenant that are being carried out.
type tenantPosts struct {
	mu    sync.Mutex
	count map[string]int
}

func (t *tenantPosts) enter(tenant string, most int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = make(map[string]int)
	}
	if t.count[tenant] >= most {
		return false
	}
	t.count[tenant]++
	return true
}

func (t *tenantPosts) leave(tenant string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[tenant]--; t.count[tenant] == 0 {
		delete(t.count, tenant)
	}
}

// fair lets a request that starts something through, or answers that its key asks too fast or its tenant for too much at once.
func (g *Gateway) fair(w http.ResponseWriter, who *auth.Principal) (leave func()) {
	perMinute := who.Quota.PerMinute
	if perMinute == 0 && g.PerMinute != nil {
		perMinute = g.PerMinute(who.Tenant)
	}
	if perMinute == 0 {
		perMinute = DefaultPerMinute
	}
	if wait, ok := g.rates.Take(who.Tenant+"/"+who.Key, perMinute); !ok {
		g.problem(w, problem{
			Status: http.StatusTooManyRequests, Code: engine.CodeRate, retry: wait,
			Detail: fmt.Sprintf("this key may send %d requests a minute that start something: send the next one later", perMinute),
		})
		return nil
	}
	if !g.tenants.enter(who.Tenant, g.MaxPostsEach) {
		g.problem(w, problem{
			Status: http.StatusTooManyRequests, Code: engine.CodeOverloaded,
			Detail: fmt.Sprintf("%d requests of this tenant are being carried out, the most that may: try again later", g.MaxPostsEach),
		})
		return nil
	}
	return func() { g.tenants.leave(who.Tenant) }
}

// readyEvery is how long an answer about readiness holds: anybody may ask, and asking costs a query.
const readyEvery = time.Second

// readiness remembers the last answer.
type readiness struct {
	mu     sync.Mutex
	at     time.Time
	faults map[string]error
}

func (r *readiness) ask(ctx context.Context, check func(context.Context) map[string]error) map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.faults == nil || now.Sub(r.at) >= readyEvery || now.Before(r.at) {
		r.faults, r.at = check(ctx), now
	}
	return r.faults
}
