// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"glovebox/internal/engine"
	"glovebox/internal/pool"
)

// Source is what is read each time that metrics are asked for.
type Source struct {
	Load func() engine.Load
	// Pools are those that keep warm sandboxes, by the name of their backend.
	Pools map[string]func() pool.Stats
}

// Watch shows a source; a Metrics has one.
func (m *Metrics) Watch(source Source) error {
	return m.registry.Register(&watcher{
		Source:   source,
		running:  describe("executions_running", "Executions that have their place now."),
		waiting:  describe("executions_waiting", "Executions that wait for a place now."),
		held:     describe("sandboxes_held", "Sandboxes that live between executions now."),
		draining: describe("draining", "1 when no new work is taken."),
		hits:     describe("pool_hits_total", "Sandboxes that stood ready when they were asked for.", "backend"),
		misses:   describe("pool_misses_total", "Sandboxes that had to be made when they were asked for.", "backend"),
		unfit:    describe("pool_unfit_total", "Ready sandboxes that gave no sign of life and were thrown away.", "backend"),
		ready:    describe("pool_ready", "Sandboxes that stand ready now.", "backend"),
	})
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("glovebox_"+name, help, labels, nil)
}

// watcher reads a Source.
type watcher struct {
	Source
	running, waiting, held, draining *prometheus.Desc
	hits, misses, unfit, ready       *prometheus.Desc
}

// Describe names the metrics.
func (w *watcher) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.running, w.waiting, w.held, w.draining, w.hits, w.misses, w.unfit, w.ready} {
		to <- d
	}
}

// Collect reads them.
func (w *watcher) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	counter := func(d *prometheus.Desc, value int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	load := w.Load()
	gauge(w.running, load.Running)
	gauge(w.waiting, load.Waiting)
	gauge(w.held, load.Held)
	draining := 0
	if load.Draining {
		draining = 1
	}
	gauge(w.draining, draining)
	for backend, read := range w.Pools {
		stats := read()
		counter(w.hits, stats.Hits, backend)
		counter(w.misses, stats.Misses, backend)
		counter(w.unfit, stats.Unfit, backend)
		ready := 0
		for _, n := range stats.Ready {
			ready += n
		}
		gauge(w.ready, ready, backend)
	}
}
