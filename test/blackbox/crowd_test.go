// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// TestT79EachGetsItsOwn: of 200 runs at once each caller gets its own output; what is too much is refused with the time to come
// back, nothing times out, and whoever comes back gets through.
func TestT79EachGetsItsOwn(t *testing.T) {
	t.Parallel()
	s := ownServer(t, "max_running: 4\nmax_queued: 60\nmax_queued_each: 60\nqueue_wait: 10m\nprove: false\npool: {enabled: true, min: 2, max: 4, total: 4}\n", nil)
	const crowd = 200
	var ran, refused atomic.Int64
	var group sync.WaitGroup
	for n := range crowd {
		group.Go(func() {
			body := encode(t, call{"code": fmt.Sprintf("print('id-%d')", n), "limits": call{"wall": 60}})
			got, err := s.ask(t.Context(), http.MethodPost, "/v1/executions", "application/json", bytes.NewReader(body))
			if err != nil {
				t.Errorf("run %d: %v", n, err)
				return
			}
			switch got.status {
			case http.StatusOK:
				ran.Add(1)
				if x := decode(t, got.body); x.Stdout != fmt.Sprintf("id-%d\n", n) || x.Status != "ok" {
					t.Errorf("run %d: %s %q", n, x.Status, x.Stdout)
				}
			case http.StatusTooManyRequests:
				refused.Add(1)
				if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 60 {
					t.Errorf("run %d: Retry-After is %q", n, got.header.Get("Retry-After"))
				}
			default:
				t.Errorf("run %d: status %d, %.300s", n, got.status, got.body)
			}
		})
	}
	group.Wait()
	if ran.Load() < 64 || ran.Load()+refused.Load() != crowd {
		t.Errorf("%d ran and %d were refused, of %d", ran.Load(), refused.Load(), crowd)
	}
	t.Logf("%d ran, %d were refused", ran.Load(), refused.Load())
	if x := s.run(t, "print('later')"); x.Stdout != "later\n" {
		t.Errorf("%q", x.Stdout)
	}
	s.alive(t)
}

// TestProofsAreNobodys: what a server runs to prove its limits takes nothing of a tenant's quotas and budgets.
func TestProofsAreNobodys(t *testing.T) {
	t.Parallel()
	s := ownServer(t, "prove: true\ntenants: {default: {running: 1, budget: {runs: 1}}}\npool: {enabled: false}\n", nil)
	if x := s.run(t, "print('mine')"); x.Stdout != "mine\n" {
		t.Errorf("%q", x.Stdout)
	}
	if got := s.post(t, call{"code": "print('too much')"}); got.status != http.StatusPaymentRequired {
		t.Errorf("%d %.300s", got.status, got.body)
	}
}
