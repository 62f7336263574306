// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"glovebox/internal/backend/native"
	"glovebox/internal/image/imagetest"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

// newBackend returns a backend of its own, in folders of the test.
func newBackend(tb testing.TB, change ...func(*native.Config)) *native.Backend {
	tb.Helper()
	dir := imagetest.Rootfs(tb)
	config := native.Config{
		StateDir: filepath.Join(tb.TempDir(), "sandboxes"), RuntimeDir: "/run/glovebox",
		Log:         slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Rootfs:      func(string) (string, func(), error) { return dir, func() {}, nil },
		ForkTimeout: sandboxtest.Patient(20 * time.Second),
	}
	for _, apply := range change {
		apply(&config)
	}
	backend, err := native.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := backend.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	capabilities, err := backend.Probe(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if !capabilities.Available {
		tb.Skipf("this host cannot hold a native sandbox: %s", capabilities.Why)
	}
	return backend
}

func class() sandbox.Class {
	return sandbox.Class{Image: "python", Profile: sandbox.ProfileStandard, Network: sandbox.NetworkNone}
}

// TestConformanceOfJavaScript holds the sessions of another language to the same contract.
func TestConformanceOfJavaScript(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Suite{
		New:      func(t *testing.T) sandbox.Backend { t.Helper(); return newBackend(t) },
		Class:    class(),
		Language: "javascript",
		Cells:    sandboxtest.JavaScriptCells(),
		Features: sandboxtest.Features{Processes: true, Warm: true},
	})
}

// TestConformance holds the native backend to the contract.
func TestConformance(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Suite{
		New:      func(t *testing.T) sandbox.Backend { t.Helper(); return newBackend(t) },
		Class:    class(),
		Features: sandboxtest.Features{Processes: true, Warm: true},
	})
}
