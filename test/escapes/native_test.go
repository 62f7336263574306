// SPDX-License-Identifier: Apache-2.0

package escapes_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/internal/backend/native"
	"glovebox/internal/image/imagetest"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
	"glovebox/test/escapes"
)

const (
	attacks = "../../../shared/attacks/runtime"
	own     = "probes"
)

// verdict is what became of a probe.
type verdict struct {
	result sandbox.Result
	output string
	// printed counts everything, also what is not kept.
	printed int64
	fault   string
}

// keep is how much of an output is looked at. A run that prints more than Limits.Output, here 16 MiB, is cut by the
// engine and says so; the printing itself is no offence and ends nothing.
const (
	keep        = 1 << 20
	outputLimit = 16 << 20
)

// judge returns nothing when the probe ended as it must.
func judge(p escapes.Probe, v verdict) string {
	contained := strings.Contains(v.output, "CONTAINED")
	if at := strings.Index(v.output, "BREACH:"); at >= 0 {
		line, _, _ := strings.Cut(v.output[at:], "\n")
		return line
	}
	limits := []sandbox.End{
		sandbox.EndWallTimeout, sandbox.EndCPUTimeout, sandbox.EndOutOfMemory, sandbox.EndProcesses, sandbox.EndDisk,
	}
	switch p.Expect {
	case "contained":
		if !contained {
			return fmt.Sprintf("no CONTAINED: end %s, fault %q", v.result.End, v.fault)
		}
	case "timeout":
		if v.result.End != sandbox.EndWallTimeout && v.result.End != sandbox.EndCPUTimeout {
			return fmt.Sprintf("ended with %s and not by time", v.result.End)
		}
	case "oom", "limit":
		if !contained && !slices.Contains(limits, v.result.End) && v.printed <= outputLimit {
			return fmt.Sprintf("neither CONTAINED nor a limit: end %s, fault %q", v.result.End, v.fault)
		}
	default:
		return "unknown expectation " + p.Expect
	}
	return ""
}

func run(ctx context.Context, b sandbox.Backend, id sandbox.ID, warm sandbox.Warmth, p escapes.Probe) (v verdict, err error) {
	wall := sandboxtest.Patient(30 * time.Second)
	if p.Expect == "timeout" {
		wall = sandboxtest.Patient(3 * time.Second)
	}
	box, err := b.Create(ctx, id, sandbox.Class{
		Image: "python", Profile: p.Profile, Network: sandbox.NetworkNone, Warm: warm,
	})
	if err != nil {
		return v, err
	}
	defer func() {
		if destroyErr := box.Destroy(ctx); destroyErr != nil && err == nil {
			err = destroyErr
		}
	}()
	limits := sandbox.Limits{
		Wall: wall, CPUTime: wall, Memory: 512 << 20, MilliCPU: 1000, Processes: 64, OpenFiles: 256, Disk: 256 << 20,
		Inodes: 32768, Tmp: 64 << 20, Output: outputLimit,
	}
	if err := box.Lease(ctx, sandbox.Lease{Limits: limits}); err != nil {
		return v, err
	}
	session, err := box.Open(ctx, sandbox.OpenSpec{Language: p.Language})
	if err != nil {
		return v, err
	}
	var output strings.Builder
	code := sandbox.Code{Source: p.Source, Name: p.File, Wall: wall, Last: true}
	v.result, err = session.Exec(ctx, code, func(e sandbox.Event) {
		if e.Kind == sandbox.EventStdout {
			v.printed += int64(len(e.Text))
			if output.Len() < keep {
				output.Write(e.Text)
			}
		}
		if e.Kind == sandbox.EventError {
			v.fault = e.Fault.Name + ": " + e.Fault.Value
			if len(v.fault) > 300 {
				v.fault = v.fault[:300]
			}
		}
	})
	v.output = output.String()
	return v, err
}

// TestNativeProbes: every probe ends as its header says, in a fresh box each, the persistence kind twice; both in an
// interpreter that was started in the box and in one that was forked into it.
func TestNativeProbes(t *testing.T) {
	for name, warm := range map[string]sandbox.Warmth{"started": sandbox.WarmNone, "forked": sandbox.WarmPlain} {
		t.Run(name, func(t *testing.T) { probeAll(t, warm) })
	}
}

func probeAll(t *testing.T, warm sandbox.Warmth) {
	t.Helper()
	probes, err := escapes.Load(attacks)
	if err != nil {
		t.Fatal(err)
	}
	if len(probes) == 0 {
		t.Logf("no probes in %s: they come beside the checkout", attacks)
	}
	ours, err := escapes.Load(own)
	if err != nil {
		t.Fatal(err)
	}
	probes = append(probes, ours...)
	if warm != sandbox.WarmNone { // other languages than Python's are never forked
		probes = slices.DeleteFunc(probes, func(p escapes.Probe) bool { return p.Language != sandbox.WarmLanguage })
	}
	b := newNative(t)
	const canary = "/var/tmp/sbx-canary-host"
	if err := os.WriteFile(canary, []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(canary) })
	total, good := make(map[string]int), make(map[string]int)
	for i, p := range probes {
		t.Run(p.Name, func(t *testing.T) {
			times := 1
			if p.Kind == "persistence" {
				times = 2
			}
			total[p.Kind]++
			for n := range times {
				v, err := run(t.Context(), b, sandbox.ID(fmt.Sprintf("probe%dx%d", i, n)), warm, p)
				if err != nil {
					t.Fatal(err)
				}
				if why := judge(p, v); why != "" && n == times-1 {
					t.Errorf("%s (%s, %s): %s", p.Name, p.Kind, p.Expect, why)
					return
				}
			}
			good[p.Kind]++
		})
	}
	var table strings.Builder
	for _, kind := range slices.Sorted(keys(total)) {
		fmt.Fprintf(&table, "%-12s %3d of %3d\n", kind, good[kind], total[kind])
	}
	t.Logf("probes that ended as they must:\n%s", table.String())
}

func keys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func newNative(t *testing.T) sandbox.Backend {
	t.Helper()
	rootfs := imagetest.Rootfs(t)
	b, err := native.New(native.Config{
		StateDir: t.TempDir(), RuntimeDir: "/run/glovebox", Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Rootfs:      func(string) (string, func(), error) { return rootfs, func() {}, nil },
		ForkTimeout: sandboxtest.Patient(20 * time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}
