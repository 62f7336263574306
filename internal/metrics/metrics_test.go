// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"glovebox/internal/engine"
	"glovebox/internal/metrics"
	"glovebox/internal/pool"
	"glovebox/internal/sandbox"
)

func filled(t *testing.T) *metrics.Metrics {
	t.Helper()
	m := metrics.New()
	err := m.Watch(metrics.Source{
		Load: func() engine.Load { return engine.Load{Running: 3, Waiting: 2, Held: 1, Draining: true} },
		Pools: map[string]func() pool.Stats{"native": func() pool.Stats {
			return pool.Stats{Hits: 7, Misses: 1, Ready: map[sandbox.Class]int{{Image: "a"}: 2, {Image: "b"}: 3}}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		m.Ended(&engine.Execution{
			ID: sandbox.ID(fmt.Sprintf("id%d", n)), Tenant: fmt.Sprintf("tenant%d", n), Key: fmt.Sprintf("key%d", n), Image: fmt.Sprintf("image%d", n),
			Backend: "native", Status: "ok", Usage: engine.Usage{Setup: 0.003, Queue: 0.5, PoolHit: n%2 == 0},
		})
		m.Request(fmt.Sprintf("METHOD%d", n), "", 404, time.Millisecond)
	}
	m.Refused(engine.CodeQuota)
	m.Request("POST", "/v1/executions", 200, time.Second)
	m.Request("POST", "/v1/executions", 0, time.Second)
	return m
}

// TestNamesFollowTheRules: units, suffixes and help texts are as Prometheus wants them.
func TestNamesFollowTheRules(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(filled(t).Gatherer())
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestWhatIsShown: each metric, by what the handler answers.
func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	filled(t).Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body := recorder.Body.String()
	for _, want := range []string{
		`glovebox_executions_total{backend="native",end="ok"} 50`, `glovebox_refusals_total{code="quota_exceeded"} 1`,
		`glovebox_queue_wait_seconds_count 50`, `glovebox_acquire_seconds_count{backend="native",pool="hit"} 25`,
		`glovebox_run_seconds_count{backend="native"} 50`, `glovebox_executions_running 3`, `glovebox_executions_waiting 2`,
		`glovebox_sandboxes_held 1`, `glovebox_draining 1`, `glovebox_pool_hits_total{backend="native"} 7`,
		`glovebox_pool_misses_total{backend="native"} 1`, `glovebox_pool_ready{backend="native"} 5`,
		`glovebox_http_requests_total{method="none",route="none",status="4xx"} 50`,
		`glovebox_http_requests_total{method="POST",route="/v1/executions",status="2xx"} 1`,
		`glovebox_http_requests_total{method="POST",route="/v1/executions",status="aborted"} 1`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("%s is not in\n%s", want, body)
		}
	}
}

// TestLabelsAreBounded: no label is about who asks, for what, or under which name.
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	families, err := filled(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"backend", "end", "code", "pool", "method", "route", "status"}
	callers := regexp.MustCompile(`(id|tenant|key|image|METHOD)\d`)
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "glovebox_") {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if !slices.Contains(allowed, label.GetName()) || callers.MatchString(label.GetValue()) {
					t.Errorf("%s has the label %s=%q", family.GetName(), label.GetName(), label.GetValue())
				}
			}
		}
	}
}
