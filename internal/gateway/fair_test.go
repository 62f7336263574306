// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/gateway"
	"glovebox/internal/usage"
)

func limited(tenant string, quota auth.Quota, scopes ...auth.Scope) *auth.Principal {
	return auth.Of(auth.Key{ID: "key-of-" + tenant, Tenant: tenant, Scopes: scopes, Quota: quota})
}

// TestRateIsLimitedByKey: who asks too fast is told when to come back; others, and what only reads, go on.
func TestRateIsLimitedByKey(t *testing.T) {
	t.Parallel()
	c := withKeys(keyring{
		"slow": limited("alpha", auth.Quota{PerMinute: 2}, auth.Scopes()...), "other": limited("beta", auth.Quota{}, auth.Scopes()...),
	})
	with := c.gateway
	c.gateway = func(config *gateway.Config) {
		with(config)
		config.PerMinute = func(tenant string) int { return map[string]int{"beta": 3}[tenant] }
	}
	b := newBench(t, c)
	statuses := func(key string, most int) (n int, last answer) {
		for n = range most {
			if last = b.as(t, key, "POST", "/v1/executions", `{"code": "print(1)"}`); last.status != http.StatusOK {
				return n, last
			}
		}
		return most, last
	}
	n, refused := statuses("slow", 5)
	if n != 2 || refused.status != http.StatusTooManyRequests || refused.object(t)["code"] != "rate_limited" {
		t.Errorf("after %d: %d %s", n, refused.status, refused.body)
	}
	if after := refused.header.Get("Retry-After"); after != "30" && after != "29" {
		t.Errorf("Retry-After is %q", after)
	}
	if n, _ := statuses("other", 5); n != 3 {
		t.Errorf("a tenant's own limit let %d through", n)
	}
	if got := b.as(t, "slow", "GET", "/v1/executions/neverwas", ""); got.status != http.StatusNotFound {
		t.Errorf("reading: %d", got.status)
	}
	if n, _ := statuses(token, 5); n != 5 {
		t.Errorf("the operator was stopped after %d", n)
	}
}

// TestQuotasOverHTTP: a quota is 429 with its name and Retry-After, a spent budget 402.
func TestQuotasOverHTTP(t *testing.T) {
	t.Parallel()
	c := withKeys(keyring{"one": limited("alpha", auth.Quota{Sandboxes: 1}, auth.Scopes()...), "spent": limited("broke", auth.Quota{}, auth.Scopes()...)})
	c.engine = func(config *engine.Config) { config.Account = broke{} }
	b := newBench(t, c)
	first := b.as(t, "one", "POST", "/v1/sandboxes", `{}`)
	second := b.as(t, "one", "POST", "/v1/sandboxes", `{}`)
	if first.status != http.StatusCreated || second.status != http.StatusTooManyRequests || second.header.Get("Retry-After") == "" ||
		second.object(t)["code"] != "quota_exceeded" || !strings.Contains(second.body, "quota sandboxes of this key is 1") {
		t.Errorf("%d, then %d %s", first.status, second.status, second.body)
	}
	if got := b.as(t, "spent", "POST", "/v1/executions", `{"code": "print(1)"}`); got.status != http.StatusPaymentRequired || got.object(t)["code"] != "budget_exceeded" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// broke is an account of which one tenant has spent everything.
type broke struct{}

func (broke) Allow(tenant string) error {
	if tenant == "broke" {
		return &engine.Problem{Code: engine.CodeBudget, Text: "spent"}
	}
	return nil
}

func (broke) Spend(engine.Spent) {}

// TestOneTenantDoesNotTakeAllPosts: requests of a tenant whose bodies never end leave room for others.
func TestOneTenantDoesNotTakeAllPosts(t *testing.T) {
	t.Parallel()
	c := withKeys(keyring{"slow": limited("alpha", auth.Quota{}, auth.Scopes()...), "other": limited("beta", auth.Quota{}, auth.Scopes()...)})
	with := c.gateway
	c.gateway = func(config *gateway.Config) {
		with(config)
		config.MaxPosts, config.MaxPostsEach = 4, 3
	}
	b := newBench(t, c)
	ctx, cancel := context.WithCancelCause(t.Context())
	var group sync.WaitGroup
	sent := make(chan struct{})
	for range 3 {
		reader, writer := io.Pipe()
		group.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/executions", reader)
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer slow")
			request.Header.Set("Content-Type", "application/json")
			if response, err := b.Client().Do(request); err == nil {
				_ = response.Body.Close()
			}
		})
		go func() {
			_, _ = writer.Write([]byte(`{"code": "`))
			sent <- struct{}{}
			<-ctx.Done()
			_ = writer.Close()
		}()
	}
	for range 3 {
		<-sent
	}
	for { // the last may not have arrived yet
		got := b.as(t, "slow", "POST", "/v1/executions", `{"code": "print(1)"}`)
		if got.status == http.StatusTooManyRequests {
			if !strings.Contains(got.body, "of this tenant") {
				t.Errorf("%s", got.body)
			}
			break
		}
	}
	if got := b.as(t, "other", "POST", "/v1/executions", `{"code": "print(1)"}`); got.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", got.status, got.body)
	}
	cancel(errors.New("test over"))
	group.Wait()
}

// TestReadyz: it says what fails and not why, needs no key, and healthz stays well.
func TestReadyz(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		faults map[string]error
		status int
	}{
		"all well":  {map[string]error{"database": nil, "backend": nil}, http.StatusOK},
		"one fails": {map[string]error{"database": errors.New("secret host refused"), "backend": nil}, http.StatusServiceUnavailable},
		"no checks": {nil, http.StatusOK},
	} {
		asked := 0
		b := newBench(t, change{gateway: func(config *gateway.Config) {
			config.Ready = func(context.Context) map[string]error { asked++; return c.faults }
		}})
		for range 3 {
			got := b.do(t, "GET", "/readyz", "", "", func(r *http.Request) { r.Header.Del("Authorization") })
			if got.status != c.status || strings.Contains(got.body, "secret") || (c.status == http.StatusOK) != (got.header.Get("Retry-After") == "") {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
		}
		if c.faults != nil && asked > 2 {
			t.Errorf("%s: three answers asked %d times", name, asked)
		}
		if got := b.do(t, "GET", "/healthz", "", "", func(*http.Request) {}); got.status != http.StatusOK {
			t.Errorf("%s: healthz %d", name, got.status)
		}
	}
}

// TestEveryAnswerIsObserved: by the pattern of its route, also those that nobody was let in for.
func TestEveryAnswerIsObserved(t *testing.T) {
	t.Parallel()
	type seen struct {
		method, route string
		status        int
	}
	var mu sync.Mutex
	var all []seen
	c := withKeys(keyring{"plain": limited("alpha", auth.Quota{}, auth.DefaultScopes()...)})
	with := c.gateway
	c.gateway = func(config *gateway.Config) {
		with(config)
		config.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "numbers\n") })
		config.Observe = func(method, route string, status int, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, seen{method, route, status})
		}
	}
	b := newBench(t, c)
	b.as(t, "plain", "GET", "/v1/executions/some-id", "")
	b.as(t, "nobody", "GET", "/v1/executions/some-id", "")
	b.as(t, "plain", "GET", "/nothing/here", "")
	if got := b.as(t, "plain", "GET", "/metrics", ""); got.status != http.StatusForbidden {
		t.Errorf("metrics without the scope: %d", got.status)
	}
	if got := b.as(t, token, "GET", "/metrics", ""); got.status != http.StatusOK || got.body != "numbers\n" {
		t.Errorf("metrics: %d %s", got.status, got.body)
	}
	b.Close() // all handlers have returned
	want := []seen{
		{"GET", "/v1/executions/{id}", 404}, {"", "", 401}, {"", "", 404}, {"GET", "/metrics", 403}, {"GET", "/metrics", 200},
	}
	mu.Lock()
	defer mu.Unlock()
	if len(all) != len(want) {
		t.Fatalf("seen %v", all)
	}
	for i := range want {
		if all[i] != want[i] {
			t.Errorf("answer %d: %v, want %v", i, all[i], want[i])
		}
	}
}

// TestAnObservedStreamStillStreams: what counts an answer does not hold it back.
func TestAnObservedStreamStillStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{gateway: func(config *gateway.Config) {
		config.Observe = func(string, string, int, time.Duration) {}
	}})
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("nothing came"))
	defer cancel()
	request := httptest.NewRequest(http.MethodPost, b.URL+"/v1/executions", strings.NewReader(`{"code": "print hello\nspin"}`)).WithContext(ctx)
	request.RequestURI = ""
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	response, err := b.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text := make([]byte, 0, 1000)
	for !strings.Contains(string(text), "hello") {
		piece := make([]byte, 100)
		n, err := response.Body.Read(piece)
		text = append(text, piece[:n]...)
		if err != nil {
			t.Fatal(err, string(text))
		}
	}
}

// TestUsageIsTheTenantsOwn: another's needs the scope admin, and every fault of a question is told.
func TestUsageIsTheTenantsOwn(t *testing.T) {
	t.Parallel()
	c := withKeys(keyring{"plain": limited("alpha", auth.Quota{}, auth.DefaultScopes()...)})
	with := c.gateway
	c.gateway = func(config *gateway.Config) {
		with(config)
		config.Usage = func(_ context.Context, tenant string, from, to time.Time) (usage.Report, error) {
			return usage.Report{Tenant: tenant, From: from.Format(time.DateOnly), To: to.Format(time.DateOnly)}, nil
		}
	}
	b := newBench(t, c)
	for _, c := range []struct {
		key, query string
		status     int
		has        string
	}{
		{"plain", "", http.StatusOK, `"tenant":"alpha"`},
		{"plain", "?tenant=alpha&from=2026-01-01&to=2026-01-31", http.StatusOK, `"from":"2026-01-01","to":"2026-01-31"`},
		{"plain", "?tenant=beta", http.StatusForbidden, "scope admin"},
		{token, "?tenant=beta", http.StatusOK, `"tenant":"beta"`},
		{token, "?tenant=../x", http.StatusBadRequest, "not the name"},
		{"plain", "?from=yesterday&to=never", http.StatusBadRequest, "from is"},
		{"plain", "?from=yesterday&to=never", http.StatusBadRequest, "to is"},
	} {
		if got := b.as(t, c.key, "GET", "/v1/usage"+c.query, ""); got.status != c.status || !strings.Contains(got.body, c.has) {
			t.Errorf("%s %s: %d %s", c.key, c.query, got.status, got.body)
		}
	}
}

// TestOneTenantDoesNotTakeAllTransfers: who reads files slowly has half of what may be on its way. All tenants shared one bound.
func TestOneTenantDoesNotTakeAllTransfers(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{"alpha": principal("alpha", auth.Scopes()...), "beta": principal("beta", auth.Scopes()...)}))
	g, ok := b.Config.Handler.(*gateway.Gateway)
	if !ok {
		t.Fatal("the server has another handler")
	}
	if err := gateway.TakeTransfers(g, "alpha"); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int{"alpha": http.StatusTooManyRequests, "beta": http.StatusNotFound} {
		held := b.as(t, key, "POST", "/v1/sandboxes", `{}`)
		a := b.as(t, key, "GET", fmt.Sprintf("/v1/sandboxes/%s/files?path=nothing", held.object(t)["id"]), "")
		if a.status != want {
			t.Errorf("%s: status %d, want %d: %s", key, a.status, want, a.body)
		}
	}
}
