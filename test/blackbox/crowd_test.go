// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// tenant makes a key of a tenant and returns the server as its holder sees it.
func (s *server) tenant(t *testing.T, tenant string, quotas ...string) *server {
	t.Helper()
	args := append([]string{"--data", s.folder, "keys", "create", "--quiet", "--tenant", tenant}, quotas...)
	command := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	command.Env = []string{asProgram + "=1"}
	key, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return &server{url: s.url, token: strings.TrimSpace(string(key)), folder: s.folder}
}

// TestACrowdDelaysItsOwnTenant: while one tenant has sixty executions waiting for the one place, another's is carried out after
// a few of them; each gets its own output, and the wait is in the record.
func TestACrowdDelaysItsOwnTenant(t *testing.T) {
	t.Parallel()
	s := ownServer(t, "max_running: 1\nqueue_wait: 10m\nprove: false\npool: {enabled: true, min: 1, max: 1, total: 2}\n", nil)
	greedy, modest := s.tenant(t, "greedy"), s.tenant(t, "modest")
	const crowd, most = 40, 10
	var over atomic.Int64
	var group sync.WaitGroup
	ask := func(who *server, n int) *execution {
		body := encode(t, call{"code": fmt.Sprintf("print('id-%d')", n), "limits": call{"wall": 60}})
		got, err := who.ask(t.Context(), http.MethodPost, "/v1/executions", "application/json", bytes.NewReader(body))
		if err != nil || got.status != http.StatusOK {
			t.Errorf("run %d: %d %.300s %v", n, got.status, got.body, err)
			return nil
		}
		x := decode(t, got.body)
		if x.Stdout != fmt.Sprintf("id-%d\n", n) {
			t.Errorf("run %d: %s %q", n, x.Status, x.Stdout)
		}
		return x
	}
	for n := range crowd {
		group.Go(func() {
			ask(greedy, n)
			over.Add(1)
		})
	}
	for over.Load() == 0 { // all others of the crowd wait, or come soon
		s.alive(t)
	}
	before := over.Load()
	x := ask(modest, crowd)
	if passed := over.Load() - before; passed > most {
		t.Errorf("%d of the crowd were served before another tenant's one", passed)
	}
	if x != nil && !strings.Contains(x.raw, `"queue_seconds":`) {
		t.Errorf("no wait in %s", x.raw)
	}
	group.Wait()
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
