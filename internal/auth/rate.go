// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"container/list"
	"sync"
	"time"
)

// MaxRates is how many keys a Rates remembers; one that was forgotten begins anew.
const MaxRates = 4096

// Rates bounds how fast each key may ask: a bucket for each, which holds as many requests as may come a minute and fills
// evenly. It is safe for concurrent use.
type Rates struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[string]*list.Element
	recent  *list.List // of *bucket, the one used last first
}

type bucket struct {
	name   string
	tokens float64
	at     time.Time
}

// NewRates returns Rates that read this clock.
func NewRates(now func() time.Time) *Rates {
	return &Rates{now: now, buckets: make(map[string]*list.Element), recent: list.New()}
}

// Take takes a request of this name, of which so many may come a minute, or says how long to wait for the next.
func (r *Rates) Take(name string, perMinute int) (wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, most := r.now(), float64(perMinute)
	element := r.buckets[name]
	if element == nil {
		if r.recent.Len() >= MaxRates {
			if oldest, isBucket := r.recent.Remove(r.recent.Back()).(*bucket); isBucket {
				delete(r.buckets, oldest.name)
			}
		}
		element = r.recent.PushFront(&bucket{name: name, tokens: most, at: now})
		r.buckets[name] = element
	}
	r.recent.MoveToFront(element)
	b, _ := element.Value.(*bucket)
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens += most * passed.Minutes()
		b.at = now
	}
	b.tokens = min(b.tokens, most)
	if b.tokens >= 1 {
		b.tokens--
		return 0, true
	}
	return time.Duration((1 - b.tokens) / most * float64(time.Minute)), false
}
