// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"glovebox/internal/engine"
)

// Metrics is an engine.Observer. It is safe for concurrent use.
type Metrics struct {
	registry   *prometheus.Registry
	executions *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	queue      prometheus.Histogram
	acquire    *prometheus.HistogramVec
	run        *prometheus.HistogramVec
	requests   *prometheus.CounterVec
	took       *prometheus.HistogramVec
}

// The bounds of histograms, in seconds.
func quick() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60}
}
func slow() []float64 { return []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600} }

// New returns Metrics that also read the process's own counters.
func New() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "glovebox_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "glovebox_" + name, Help: help, Buckets: bounds}, labels)
	}
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		executions: counter("executions_total", "Executions that are over, by how they ended.", "backend", "end"),
		refusals:   counter("refusals_total", "Requests that were not carried out, by code.", "code"),
		queue: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "glovebox_queue_wait_seconds", Help: "How long executions waited for a place.", Buckets: slow(),
		}),
		acquire: histogram("acquire_seconds", "From having a place to the interpreter being open, of executions with a sandbox of their own.", quick(), "backend", "pool"),
		run:     histogram("run_seconds", "Wall clock of the code.", slow(), "backend"),
		requests: counter("http_requests_total", "Requests by the route's pattern and the class of the status; aborted means that no answer was sent.",
			"method", "route", "status"),
		took: histogram("http_request_seconds", "From a request's headers to the end of its answer.", slow(), "method", "route"),
	}
	m.registry.MustRegister(m.executions, m.refusals, m.queue, m.acquire, m.run, m.requests, m.took,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers with all metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, ErrorHandling: promhttp.HTTPErrorOnError})
}

// Gatherer is the registry, for tests.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Ended counts an execution.
func (m *Metrics) Ended(x *engine.Execution) {
	m.executions.WithLabelValues(x.Backend, string(x.Status)).Inc()
	m.queue.Observe(x.Usage.Queue)
	if x.Usage.Setup > 0 {
		pool := "miss"
		if x.Usage.PoolHit {
			pool = "hit"
		}
		m.acquire.WithLabelValues(x.Backend, pool).Observe(x.Usage.Setup)
	}
	m.run.WithLabelValues(x.Backend).Observe(x.Usage.Wall)
}

// Refused counts a request that was not carried out.
func (m *Metrics) Refused(code engine.Code) { m.refusals.WithLabelValues(string(code)).Inc() }

// Request counts an answer. The route is a pattern of the table, or empty; a status of zero means that none was sent.
func (m *Metrics) Request(method, route string, status int, took time.Duration) {
	if route == "" {
		method, route = "none", "none" // both are the client's own words
	}
	const class = 100
	name := "aborted"
	if status > 0 {
		name = strconv.Itoa(status/class) + "xx"
	}
	m.requests.WithLabelValues(method, route, name).Inc()
	m.took.WithLabelValues(method, route).Observe(took.Seconds())
}
