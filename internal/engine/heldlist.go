// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// DefaultPage is how many sandboxes one page lists if nobody says.
const DefaultPage = 50

// HeldFilter chooses among a tenant's sandboxes. Empty fields choose all.
type HeldFilter struct {
	State HeldState
	// Metadata must all be there with these values.
	Metadata map[string]string
	// Limit is how many are listed, and Before where the page begins: what the page before it said.
	Limit  int
	Before string
}

func (f *HeldFilter) validate() (before place, err error) {
	if f.Limit == 0 {
		f.Limit = DefaultPage
	}
	var faults []string
	if f.Limit < 1 || f.Limit > MaxPage {
		faults = append(faults, fmt.Sprintf("limit is %d: 1 to %d are allowed", f.Limit, MaxPage))
	}
	if f.State != "" && f.State != HeldIdle && f.State != HeldBusy {
		faults = append(faults, fmt.Sprintf("state is %q: choose %s or %s", clip(string(f.State), 20), HeldIdle, HeldBusy))
	}
	before, ok := placeOf(f.Before)
	if !ok {
		faults = append(faults, "before is not the place of a page: take it from the answer before, or leave it out")
	}
	if len(faults) > 0 {
		return place{}, &Problem{Code: CodeInvalid, Text: "the request is not valid", Faults: faults}
	}
	return before, nil
}

// place orders sandboxes, the newest first.
type place struct {
	nanos int64
	id    sandbox.ID
}

func (p place) after(other place) int {
	return cmp.Or(cmp.Compare(other.nanos, p.nanos), cmp.Compare(other.id, p.id))
}

func (p place) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.nanos, 36) + "." + string(p.id)))
}

func placeOf(text string) (place, bool) {
	if text == "" {
		return place{}, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	stamp, id, found := strings.Cut(string(raw), ".")
	nanos, numberErr := strconv.ParseInt(stamp, 36, 64)
	return place{nanos, sandbox.ID(id)}, err == nil && found && numberErr == nil && sandbox.ID(id).Valid()
}

// ListHeld lists a tenant's sandboxes that are alive, the newest first, and says where the next page begins; empty after
// the last.
func (e *Engine) ListHeld(tenant string, filter HeldFilter) (found []Held, next string, err error) {
	before, err := filter.validate()
	if err != nil {
		return nil, "", err
	}
	var mine []*held
	e.mu.Lock()
	for _, h := range e.held {
		if h.request.Who.Tenant == tenant && h.timer != nil {
			mine = append(mine, h)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(mine, func(a, b *held) int { return a.place().after(b.place()) })
	found = []Held{}
	for _, h := range mine {
		if filter.Before != "" && h.place().after(before) <= 0 {
			continue
		}
		shown := h.describe()
		if !filter.takes(shown) {
			continue
		}
		if len(found) == filter.Limit {
			return found, next, nil
		}
		found, next = append(found, shown), h.place().String()
	}
	return found, "", nil
}

func (h *held) place() place { return place{h.created.UnixNano(), h.id} }

func (f *HeldFilter) takes(h Held) bool {
	if f.State != "" && f.State != h.State {
		return false
	}
	for key, value := range f.Metadata {
		if got, ok := h.Metadata[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// HeldChange is what may be changed of a living sandbox; nil stays as it is.
type HeldChange struct {
	// Idle and Hard are counted from now. A sandbox never lives longer than MaxHardLease.
	Idle, Hard *time.Duration
	Metadata   *map[string]string
	Limits     policy.Overrides
}

// UpdateHeld changes a tenant's sandbox: all of it or nothing.
func (e *Engine) UpdateHeld(ctx context.Context, tenant string, id sandbox.ID, change HeldChange) (Held, error) {
	h, ctx, leave, err := e.visit(ctx, tenant, id)
	if err != nil {
		return Held{}, err
	}
	defer leave()
	var terms Terms
	if change.Idle != nil {
		terms.Idle = max(*change.Idle, 1) // zero is no default here, but too short
	}
	if change.Hard != nil {
		terms.Hard = max(*change.Hard, 1)
	}
	if change.Metadata != nil {
		terms.Metadata = *change.Metadata
	}
	if err := terms.validate(); err != nil {
		return Held{}, problemOf(err)
	}
	if change.Limits != (policy.Overrides{}) {
		if err := e.updateLimits(ctx, h, change.Limits); err != nil {
			return Held{}, h.explain(err)
		}
	}
	left := h.change(e.Now(), change)
	e.mu.Lock()
	if !h.ended {
		h.timer.Reset(left)
	}
	e.mu.Unlock()
	return h.describe(), nil
}

// change returns after which time the lease is to be looked at.
func (h *held) change(now time.Time, change HeldChange) (left time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if change.Idle != nil {
		h.terms.Idle = *change.Idle
	}
	if change.Hard != nil {
		h.until = now.Add(*change.Hard)
		if most := h.created.Add(MaxHardLease); h.until.After(most) {
			h.until = most
		}
		h.terms.Hard = h.until.Sub(h.created)
	}
	if change.Metadata != nil {
		h.terms.Metadata = maps.Clone(*change.Metadata)
	}
	h.idle = now.Add(h.terms.Idle)
	return min(h.terms.Idle, h.until.Sub(now))
}

func (e *Engine) updateLimits(ctx context.Context, h *held, change policy.Overrides) error {
	merged := h.request.Limits
	from, into := reflect.ValueOf(change), reflect.ValueOf(&merged).Elem()
	for i := range from.NumField() {
		if !from.Field(i).IsNil() {
			into.Field(i).Set(from.Field(i))
		}
	}
	decision, err := policy.Decide(h.request.Policy, merged, e.Maxima)
	if err != nil {
		return problemOf(err)
	}
	if err := h.box.Update(ctx, decision.Limits); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decision.Limits, h.request.Limits = decision.Limits, merged
	return nil
}
