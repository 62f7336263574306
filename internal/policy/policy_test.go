// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

func ptr[T any](v T) *T { return &v }

func TestPresetsAreComplete(t *testing.T) {
	t.Parallel()
	for _, preset := range policy.Presets() {
		decision, err := policy.Decide(preset.Name, policy.Overrides{}, policy.DefaultMaxima())
		if err != nil {
			t.Fatalf("%s: %v", preset.Name, err)
		}
		if decision.Limits.CPUTime <= decision.Limits.Wall*time.Duration(decision.Limits.MilliCPU)/1000 {
			t.Errorf("%s: cpu time %v would be met before the wall limit", preset.Name, decision.Limits.CPUTime)
		}
	}
}

func TestTightIsTheMissionsSet(t *testing.T) {
	t.Parallel()
	d, err := policy.Decide(policy.Tight, policy.Overrides{}, policy.DefaultMaxima())
	if err != nil {
		t.Fatal(err)
	}
	l := d.Limits
	if d.Profile != sandbox.ProfileTight || l.Memory != 256<<20 || l.MilliCPU != 500 || l.Processes != 50 ||
		l.OpenFiles != 100 || l.Tmp != 64<<20 || l.Wall != 10*time.Second {
		t.Errorf("got %+v", d)
	}
}

func TestDecideNamesTheMaximum(t *testing.T) {
	t.Parallel()
	maxima := policy.DefaultMaxima()
	_, err := policy.Decide("", policy.Overrides{
		Memory: ptr(maxima.Memory + 1), Wall: ptr(maxima.Wall + 1), Processes: ptr(int64(0)),
		CPUTime: ptr(maxima.CPUTime + 1),
	}, maxima)
	if _, ok := errors.AsType[*policy.LimitError](err); !ok {
		t.Fatalf("got %v, want LimitErrors", err)
	}
	for _, want := range []string{"memory", "8 GiB", "wall", "10m0s", "processes is 0", "minimum is 4", "cpu_time"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q: every fault is named at once", want, err)
		}
	}
	if _, err := policy.Decide("", policy.Overrides{Memory: ptr(maxima.Memory), Wall: ptr(maxima.Wall)}, maxima); err != nil {
		t.Errorf("the maximum itself is refused: %v", err)
	}
}

// TestProcessorsAreNamedAsTheyAreAskedFor: who says --cpus 64 is not told of milli_cpu 64000.
func TestProcessorsAreNamedAsTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	_, err := policy.Decide("", policy.Overrides{MilliCPU: ptr(int64(64_000))}, policy.DefaultMaxima())
	if err == nil || !strings.Contains(err.Error(), "limit cpus is 64: the maximum here is 8;") || !strings.Contains(err.Error(), "(maxima.milli_cpu)") {
		t.Errorf("got %v", err)
	}
	_, err = policy.Decide("", policy.Overrides{MilliCPU: ptr(int64(1))}, policy.DefaultMaxima())
	if err == nil || err.Error() != "limit cpus is 0.001: the minimum is 0.01" {
		t.Errorf("got %v", err)
	}
}

func TestStrictIsTightWithoutAccounts(t *testing.T) {
	t.Parallel()
	tight, err := policy.Decide(policy.Tight, policy.Overrides{}, policy.DefaultMaxima())
	if err != nil {
		t.Fatal(err)
	}
	strict, err := policy.Decide(policy.Strict, policy.Overrides{}, policy.DefaultMaxima())
	if err != nil || strict.Profile != sandbox.ProfileStrict || strict.Limits != tight.Limits || strict.Network != tight.Network {
		t.Errorf("got %+v, %v", strict, err)
	}
}

func TestDecideUnknownPolicy(t *testing.T) {
	t.Parallel()
	_, err := policy.Decide("lax", policy.Overrides{}, policy.DefaultMaxima())
	if err == nil || !strings.Contains(err.Error(), "standard, tight, strict") {
		t.Errorf("got %v", err)
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1048576": 1 << 20, "512MiB": 512 << 20, "512m": 512 << 20, "1GB": 1e9, "1.5 GiB": 3 << 29, "8k": 8192,
	} {
		if got, err := policy.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1e30", "12XB", "NaN", "9999999999999GiB", "0x10", "inf"} {
		if got, err := policy.ParseSize(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestParseDurationAndCPUs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"10s": 10 * time.Second, "2.5": 2500 * time.Millisecond, "1m": time.Minute} {
		if got, err := policy.ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1s", "-1", "1e300", "NaN", "soon"} {
		if got, err := policy.ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
	for text, want := range map[string]int64{"1": 1000, "0.5": 500, "250m": 250} {
		if got, err := policy.ParseCPUs(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
}

// TestDiskBandwidth: there is none unless somebody wants it; the operator's maximum holds for every run.
func TestDiskBandwidth(t *testing.T) {
	t.Parallel()
	limited := policy.DefaultMaxima()
	limited.DiskBandwidth = ptr(int64(50 << 20))
	for name, c := range map[string]struct {
		asked  *int64
		maxima sandbox.Limits
		want   *int64
		fails  bool
	}{
		"nobody":             {nil, policy.DefaultMaxima(), nil, false},
		"caller":             {ptr(int64(9 << 20)), policy.DefaultMaxima(), ptr(int64(9 << 20)), false},
		"operator":           {nil, limited, ptr(int64(50 << 20)), false},
		"caller below":       {ptr(int64(9 << 20)), limited, ptr(int64(9 << 20)), false},
		"caller above":       {ptr(int64(51 << 20)), limited, nil, true},
		"zero":               {ptr(int64(0)), policy.DefaultMaxima(), nil, true},
		"below what is kept": {ptr(int64(1000)), limited, nil, true},
	} {
		d, err := policy.Decide("", policy.Overrides{DiskBandwidth: c.asked}, c.maxima)
		got := d.Limits.DiskBandwidth
		if (err != nil) != c.fails || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
