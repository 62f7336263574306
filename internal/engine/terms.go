// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits of what the maker of a held sandbox may say about it.
const (
	MinLease     = time.Second
	MaxIdleLease = time.Hour
	MaxHardLease = 24 * time.Hour

	MaxMetadata      = 32
	MaxMetadataKey   = 64
	MaxMetadataValue = 512
)

// Terms are what the maker of a held sandbox says about it. A zero lease is the default.
type Terms struct {
	// Idle is how long it may stay unused, and Hard how long it lives at all.
	Idle, Hard time.Duration
	// Metadata is the maker's own; it is only kept and searched.
	Metadata map[string]string
}

// LeaseTerms shows a lease.
type LeaseTerms struct {
	Idle float64 `json:"idle_seconds"`
	Hard float64 `json:"hard_seconds"`
}

func (t Terms) orDefault() Terms {
	if t.Idle == 0 {
		t.Idle = IdleLease
	}
	if t.Hard == 0 {
		t.Hard = HardLease
	}
	t.Metadata = maps.Clone(t.Metadata)
	if t.Metadata == nil {
		t.Metadata = map[string]string{}
	}
	return t
}

func (t Terms) validate() error {
	var faults []error
	within := func(name string, value, most time.Duration) {
		if value != 0 && (value < MinLease || value > most) {
			faults = append(faults, fmt.Errorf("lease %s is %v: %v to %v are allowed", name, value, MinLease, most))
		}
	}
	within("idle", t.Idle, MaxIdleLease)
	within("hard", t.Hard, MaxHardLease)
	if len(t.Metadata) > MaxMetadata {
		faults = append(faults, fmt.Errorf("metadata has %d entries: at most %d are allowed", len(t.Metadata), MaxMetadata))
	}
	for _, key := range slices.Sorted(maps.Keys(t.Metadata)) {
		switch value := t.Metadata[key]; {
		case key == "" || len(key) > MaxMetadataKey || !plainText(key):
			faults = append(faults, fmt.Errorf("metadata key %q: 1 to %d bytes of text on one line are allowed", clip(key, 40), MaxMetadataKey))
		case len(value) > MaxMetadataValue || !plainText(value):
			faults = append(faults, fmt.Errorf("metadata %s: at most %d bytes of text on one line are allowed", key, MaxMetadataValue))
		}
	}
	return errors.Join(faults...)
}

// plainText takes UTF-8 without control characters.
func plainText(text string) bool {
	for _, r := range text {
		if unicode.IsControl(r) {
			return false
		}
	}
	return utf8.ValidString(text)
}

func (h *held) lease() Terms {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.terms
}
