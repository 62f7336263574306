// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"log/slog"
	"net/http/httptest"

	"glovebox/internal/sandbox"
)

// EncodeForTest returns the stream of two pieces of stdout; the encoder is otherwise behind a whole server.
func EncodeForTest(pieces ...[]byte) []byte {
	recorder := httptest.NewRecorder()
	s := &eventStream{
		gateway: &Gateway{Config: Config{Log: slog.New(slog.DiscardHandler)}}, w: recorder, carry: map[source][]byte{},
	}
	for _, piece := range pieces {
		if err := s.Event(context.Background(), sandbox.Event{Kind: sandbox.EventStdout, Text: piece}); err != nil {
			panic(err)
		}
	}
	if err := s.rest(); err != nil {
		panic(err)
	}
	return recorder.Body.Bytes()
}

// Taken returns what a tenant's requests have of the gateway: places, and bytes of bodies.
func (g *Gateway) Taken(tenant string) (posts, bodies int64) {
	of := func(b *budget) int64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.by[tenant]
	}
	return of(g.posts), of(g.bodies)
}

// Routes lists the table of routes, as METHOD PATH.
func Routes() []string {
	var routes []string
	for _, route := range (&Gateway{}).table() {
		routes = append(routes, route.method+" "+route.path)
	}
	return routes
}

// TakeTransfers takes all of a tenant's share of the files that may be on their way.
func TakeTransfers(g *Gateway, tenant string) error {
	return g.transfers.take(tenant, g.transfers.share)
}
