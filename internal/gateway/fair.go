// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"glovebox/internal/engine"
)

// DefaultPerMinute is how many requests that start something a key may send a minute where nobody says.
const DefaultPerMinute = 12_000

// fair lets a request that starts something through, or answers that its key asks too fast or its tenant for too much at once.
func (g *Gateway) fair(w http.ResponseWriter, r *http.Request) (leave func()) {
	who := caller(r)
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
	return g.seat(w, r, g.posts)
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
