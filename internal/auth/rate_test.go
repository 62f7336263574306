// SPDX-License-Identifier: Apache-2.0

package auth_test

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"glovebox/internal/auth"
)

func TestRates(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	rates := auth.NewRates(func() time.Time { return now })
	take := func(name string, perMinute int) (n int) {
		for ; n < 1000; n++ {
			if _, ok := rates.Take(name, perMinute); !ok {
				return n
			}
		}
		return n
	}
	if got := take("a", 30); got != 30 {
		t.Errorf("at once: %d", got)
	}
	if wait, ok := rates.Take("a", 30); ok || wait != 2*time.Second {
		t.Errorf("the next in %v, %v", wait, ok)
	}
	if got := take("b", 30); got != 30 {
		t.Errorf("another key: %d", got)
	}
	now = now.Add(2 * time.Second)
	if got := take("a", 30); got != 1 {
		t.Errorf("two seconds later: %d", got)
	}
	now = now.Add(time.Hour)
	if got := take("a", 30); got != 30 {
		t.Errorf("an hour later: %d", got)
	}
	now = now.Add(-time.Hour) // a clock that is set back gives nothing
	if got := take("a", 30); got != 0 {
		t.Errorf("an hour back: %d", got)
	}
}

// TestRatesAreBounded: a key that was forgotten begins anew; the memory does not grow with the number of keys.
func TestRatesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	rates := auth.NewRates(func() time.Time { return now })
	for n := range auth.MaxRates {
		rates.Take(strconv.Itoa(n), 1)
	}
	if _, ok := rates.Take("0", 1); ok {
		t.Error("the first was forgotten before there were too many")
	}
	rates.Take("one more", 1) // takes the place of 1, which was used longest ago
	if _, ok := rates.Take("0", 1); ok {
		t.Error("the one used last was forgotten")
	}
	if _, ok := rates.Take("1", 1); !ok {
		t.Error("too many are remembered")
	}
}

// TestRatesAreExact: of a crowd exactly as many pass as may.
func TestRatesAreExact(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	rates := auth.NewRates(func() time.Time { return now })
	var passed atomic.Int64
	var group sync.WaitGroup
	for range 500 {
		group.Go(func() {
			if _, ok := rates.Take("a", 60); ok {
				passed.Add(1)
			}
		})
	}
	group.Wait()
	if passed.Load() != 60 {
		t.Errorf("%d passed", passed.Load())
	}
}
