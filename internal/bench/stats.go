// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"slices"
	"time"
)

// Summary describes a set of values.
type Summary struct {
	N    int     `json:"n"`
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Summarize returns the summary of values, which may be in any order.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, value := range sorted {
		sum += value
	}
	return Summary{
		N: len(sorted), Min: sorted[0], Mean: sum / float64(len(sorted)), Max: sorted[len(sorted)-1],
		P50: Percentile(sorted, 50), P95: Percentile(sorted, 95), P99: Percentile(sorted, 99),
	}
}

// Percentile returns the p-th percentile of sorted values by nearest rank: the smallest value that at least p percent of
// the values do not exceed. Nothing is interpolated; of few values a high percentile is the greatest.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Sample is one run of a work by a subject.
type Sample struct {
	// Result is the time until the last piece of output, End until nothing of the sandbox is left and its files are read.
	Result, End time.Duration
	// Faults are the page faults of the run where they can be told, otherwise -1.
	Faults int64
	// Output is what was printed.
	Output string
	// Ready says that the sandbox stood ready in a pool.
	Ready bool
	// Rejected says that the subject was too busy and said so.
	Rejected bool
	Err      error
}

// unknownFaults is the value of Faults where they cannot be told.
const unknownFaults = -1

func failed(err error) Sample { return Sample{Faults: unknownFaults, Err: err} }

// Row is a line of a report's table: times in milliseconds.
type Row struct {
	Subject string `json:"subject"`
	Work    string `json:"work"`
	// Mode says how runs followed each other.
	Mode string `json:"mode"`
	// Metric is what was timed: result, end, compute ...
	Metric string `json:"metric"`
	Summary
	Errors     int    `json:"errors"`
	Rejected   int    `json:"rejected"`
	FirstError string `json:"first_error,omitempty"`
	// Faults is the mean of page faults of a run, where they can be told.
	Faults *float64 `json:"page_faults,omitempty"`
}

// tally collects the samples of one subject, work and mode.
type tally struct {
	subject, work, mode string
	samples             []Sample
	// faults replaces what the samples say, where a whole series was counted.
	faults *float64
}

func (t *tally) add(s Sample) { t.samples = append(t.samples, s) }

// readiness is how many runs found a sandbox that stood ready.
func (t *tally) readiness() []Figure {
	ready, all := 0, 0
	for _, s := range t.samples {
		if s.Err == nil {
			all++
		}
		if s.Err == nil && s.Ready {
			ready++
		}
	}
	if all == 0 {
		return nil
	}
	return []Figure{{t.subject, t.work, t.mode + ": found a sandbox ready", float64(ready) / float64(all) * 100, "%"}}
}

// row summarizes one metric of the good samples.
func (t *tally) row(metric string, value func(Sample) (float64, bool)) Row {
	row := Row{Subject: t.subject, Work: t.work, Mode: t.mode, Metric: metric, Faults: t.faults}
	var values []float64
	faults, counted := int64(0), 0
	for _, s := range t.samples {
		switch v, ok := value(s); {
		case s.Rejected:
			row.Rejected++
		case s.Err != nil || !ok:
			row.fail(s.Err)
		default:
			values = append(values, v)
			if s.Faults != unknownFaults {
				faults += s.Faults
				counted++
			}
		}
	}
	row.Summary = Summarize(values)
	if row.Faults == nil && counted > 0 {
		mean := float64(faults) / float64(counted)
		row.Faults = &mean
	}
	return row
}

func (r *Row) fail(err error) {
	r.Errors++
	if r.FirstError == "" {
		r.FirstError = "no figure in the output"
		if err != nil {
			r.FirstError = err.Error()
		}
	}
}

// rows are the time to the result and the time to the end.
func (t *tally) rows() []Row {
	return []Row{
		t.row(metricResult, func(s Sample) (float64, bool) { return milliseconds(s.Result), true }),
		t.row(metricEnd, func(s Sample) (float64, bool) { return milliseconds(s.End), true }),
	}
}

// The usual metrics.
const (
	metricResult  = "result"
	metricEnd     = "end"
	metricCompute = "compute"
)
