// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"testing"

	"glovebox/internal/bench"
)

func TestPercentileIsAValueThatOccurred(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, test := range []struct {
		values []float64
		p      float64
		want   float64
	}{
		{nil, 50, 0},
		{[]float64{7}, 0, 7},
		{[]float64{7}, 99, 7},
		{[]float64{1, 2}, 50, 1},
		{[]float64{1, 2}, 51, 2},
		{[]float64{1, 2, 3, 4}, 50, 2},
		{[]float64{1, 2, 3, 4}, 100, 4},
		{hundred[:20], 95, 19},
		{hundred[:20], 99, 20},
		{hundred, 50, 50},
		{hundred, 95, 95},
		{hundred, 99, 99},
		{hundred, 99.5, 100},
	} {
		if got := bench.Percentile(test.values, test.p); got != test.want {
			t.Errorf("percentile %g of %d values is %g, not %g", test.p, len(test.values), got, test.want)
		}
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	values := []float64{30, 10, 20, 40}
	got := bench.Summarize(values)
	want := bench.Summary{N: 4, Min: 10, Mean: 25, P50: 20, P95: 40, P99: 40, Max: 40}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if values[0] != 30 {
		t.Error("the caller's values were sorted")
	}
	if got := bench.Summarize(nil); got != (bench.Summary{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
