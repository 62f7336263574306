// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/internal/bench"
	"glovebox/internal/cli"
	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/image"
)

// asProgram makes the test binary behave as this program: that is what the bench starts.
const asProgram = "GLOVEBOX_TEST_PROGRAM=1"

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asProgram) {
		os.Exit(cli.Main(cli.Host()))
	}
	os.Exit(m.Run())
}

func options(t *testing.T) bench.Options {
	t.Helper()
	c, err := config.Load(config.Host(), config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return bench.Options{
		Short: true, Config: c, Program: program, Environment: append(os.Environ(), asProgram), Now: time.Now,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Progress: t.Output(),
	}
}

// TestEveryScenarioWorks is the short form, which says nothing about speed. It needs root, the image and half a minute.
func TestEveryScenarioWorks(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of real sandboxes: not with -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("the comparison with the bare interpreter needs root, for chroot")
	}
	o := options(t)
	found, err := daemon.Diagnose(t.Context(), o.Config, daemon.Options{}, o.Log)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		if d.Err != nil || !d.Capabilities.Available {
			t.Skipf("backend %s is not available on this host: %v %s", d.Backend, d.Err, d.Capabilities.Why)
		}
	}
	report, err := bench.Run(t.Context(), o)
	if image.KindOf(err) == image.KindNotBuilt {
		t.Skipf("%v (or `make image`)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := report.WriteMarkdown(&page); err != nil {
		t.Fatal(err)
	}
	t.Log(page.String())
	if n := report.Errors(); n > 0 {
		t.Errorf("%d runs went wrong", n)
	}
	if len(report.Scenarios) != len(bench.ScenarioNames()) {
		t.Errorf("%d scenarios, not %d", len(report.Scenarios), len(bench.ScenarioNames()))
	}
	for _, s := range report.Scenarios {
		if s.Skipped != "" || s.Conditions == nil || len(s.Rows) == 0 {
			t.Errorf("scenario %s: nothing measured: %s", s.Name, s.Skipped)
		}
	}
}

func TestWrongNamesAreRefusedTogether(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Scenarios, o.Works, o.Versus, o.Server = []string{"warm"}, []string{"sleep"}, []string{"vm"}, "http://127.0.0.1:1"
	_, err := bench.Run(t.Context(), o)
	if _, ok := errors.AsType[*bench.InvalidError](err); !ok {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{`"warm"`, `"sleep"`, `"vm"`, "key", "cold, fresh"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in: %v", want, err)
		}
	}
}
