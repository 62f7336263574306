// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"io"
	"net/http"
	"sync"

	"glovebox/internal/engine"
)

// The shares of what requests take of the server before anything runs: slow ones, and large ones, of one tenant leave
// room for others.
const (
	// bodiesAtOnce is how many bodies of MaxJSON may be in memory, and uploadsAtOnce how many of MaxRequest on disk; one
	// tenant may have half of either.
	bodiesAtOnce  = 4
	uploadsAtOnce = 16
)

// budget is an amount of something that requests take and give back.
type budget struct {
	name         string
	total, share int64 // of all tenants, and of one

	mu   sync.Mutex
	used int64
	by   map[string]int64
}

func newBudget(name string, total, share int64) *budget {
	return &budget{name: name, total: total, share: share, by: make(map[string]int64)}
}

// take takes an amount, or says that there is none left.
func (b *budget) take(tenant string, amount int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by[tenant]+amount > b.share {
		return &engine.Problem{Code: engine.CodeOverloaded, Text: fmt.Sprintf("too many %s, those of this tenant alone: try again later", b.name)}
	}
	if b.used+amount > b.total {
		return &engine.Problem{Code: engine.CodeOverloaded, Text: fmt.Sprintf("too many %s: try again later", b.name)}
	}
	b.used += amount
	b.by[tenant] += amount
	return nil
}

func (b *budget) give(tenant string, amount int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= amount
	if b.by[tenant] -= amount; b.by[tenant] == 0 {
		delete(b.by, tenant)
	}
}

// seat takes one of what only so many requests may have at once, or answers that there is none.
func (g *Gateway) seat(w http.ResponseWriter, r *http.Request, seats *budget) (leave func()) {
	tenant := caller(r).Tenant
	if err := seats.take(tenant, 1); err != nil {
		g.fail(w, r, err)
		return nil
	}
	return func() { seats.give(tenant, 1) }
}

// metered is a body whose bytes are taken from a budget as they come, until release.
type metered struct {
	io.ReadCloser
	budget *budget
	tenant string

	mu    sync.Mutex
	taken int64
	over  bool
}

func (b *budget) meter(tenant string, body io.ReadCloser) *metered {
	return &metered{ReadCloser: body, budget: b, tenant: tenant}
}

// Read fails where the budget ends; what was read is then of no use to anybody.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n == 0 || m.over {
		return n, err
	}
	if none := m.budget.take(m.tenant, int64(n)); none != nil {
		return 0, none
	}
	m.taken += int64(n)
	return n, err
}

// release gives everything back; it may be called again.
func (m *metered) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.over {
		m.over = true
		m.budget.give(m.tenant, m.taken)
	}
}
