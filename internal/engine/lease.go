// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"time"

	"glovebox/internal/sandbox"
)

// leaseError is the cause with which a held sandbox ends, and what runs in it, when its lease is over.
type leaseError struct {
	at   time.Time
	text string
}

func (l *leaseError) Error() string {
	return fmt.Sprintf("its lease ended at %s: %s", l.at.UTC().Format(time.RFC3339), l.text)
}

// MaxExpired is how many sandboxes whose lease ended are remembered, so that who asks for one learns why it is gone.
const MaxExpired = 1024

// expired remembers sandboxes whose lease ended, the last MaxExpired.
type expired struct {
	order []owned
	why   map[owned]string
}

// owned is an id as its tenant knows it.
type owned struct {
	tenant string
	id     sandbox.ID
}

func (e *expired) add(tenant string, id sandbox.ID, why string) {
	if e.why == nil {
		e.why = make(map[owned]string)
	}
	if len(e.order) >= MaxExpired {
		delete(e.why, e.order[0])
		e.order = e.order[1:]
	}
	e.order = append(e.order, owned{tenant, id})
	e.why[owned{tenant, id}] = why
}

func (e *expired) find(tenant string, id sandbox.ID) (why string, known bool) {
	why, known = e.why[owned{tenant, id}]
	return why, known
}
