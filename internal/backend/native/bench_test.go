// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/backend/native"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// cost returns the processor time of this process and of all that the backend started, in milliseconds.
func cost(b *testing.B, backend *native.Backend) (self, others, zygotes float64) {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	self = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e6
	nanos, err := native.CPUOfAll(backend)
	if err != nil {
		b.Fatal(err)
	}
	own, err := native.CPUOfZygotes(backend)
	if err != nil {
		b.Fatal(err)
	}
	return self, float64(nanos-own) / 1e6, float64(own) / 1e6
}

func benchmark(b *testing.B, class sandbox.Class, run func(sandbox.Sandbox)) {
	b.Helper()
	backend := newBackend(b)
	warm, err := backend.Create(b.Context(), newID(), class)
	if err != nil {
		b.Fatal(err)
	}
	defer warm.Destroy(b.Context()) //nolint:errcheck // closed with the backend
	selfBefore, othersBefore, zygotesBefore := cost(b, backend)
	b.ResetTimer()
	for b.Loop() {
		box, err := backend.Create(b.Context(), newID(), class)
		if err != nil {
			b.Fatal(err)
		}
		if run != nil {
			run(box)
		}
		if err := box.Destroy(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	self, others, zygotes := cost(b, backend)
	b.ReportMetric((self-selfBefore)/float64(b.N), "daemon-cpu-ms/op")
	b.ReportMetric((others-othersBefore)/float64(b.N), "sandbox-cpu-ms/op")
	b.ReportMetric((zygotes-zygotesBefore)/float64(b.N), "zygote-cpu-ms/op")
}

// BenchmarkBox is a box alone: built, and torn down.
func BenchmarkBox(b *testing.B) { benchmark(b, class(), nil) }

// BenchmarkFill is what the pool does for each ready sandbox.
func BenchmarkFill(b *testing.B) { benchmark(b, warmClass(), nil) }

// BenchmarkGroupby is a whole run in a warm sandbox.
func BenchmarkGroupby(b *testing.B) {
	const source = "import pandas as pd\nprint(pd.DataFrame({'a': [1, 1, 2], 'b': [1, 2, 3]}).groupby('a').b.sum())"
	limits := sandboxtest.DefaultLimits()
	var lease, open, exec time.Duration
	defer func() {
		for unit, total := range map[string]time.Duration{"lease-ms/op": lease, "open-ms/op": open, "exec-ms/op": exec} {
			b.ReportMetric(total.Seconds()*1e3/float64(b.N), unit)
		}
	}()
	benchmark(b, warmClass(), func(box sandbox.Sandbox) {
		began := time.Now()
		if err := box.Lease(b.Context(), sandbox.Lease{Limits: limits}); err != nil {
			b.Fatal(err)
		}
		leased := time.Now()
		session, err := box.Open(b.Context(), sandbox.OpenSpec{Language: "python"})
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Now()
		code := sandbox.Code{Source: source, Wall: limits.Wall, Last: true}
		result, err := session.Exec(b.Context(), code, func(sandbox.Event) {})
		if err != nil || result.End != sandbox.EndOK {
			b.Fatal(result, err)
		}
		lease, open, exec = lease+leased.Sub(began), open+opened.Sub(leased), exec+time.Since(opened)
	})
}
