// SPDX-License-Identifier: Apache-2.0

package sandboxtest_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFakeKeepsTheContract keeps suite and fake honest against each other.
func TestFakeKeepsTheContract(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Suite{
		New:   func(t *testing.T) sandbox.Backend { t.Helper(); return sandboxtest.NewFake(t.TempDir()) },
		Class: sandbox.Class{Image: "none", Profile: sandbox.ProfileStandard, Network: sandbox.NetworkNone},
		Cells: sandboxtest.FakeCells(), Features: sandboxtest.Features{Processes: true},
	})
}

func TestFaultHitsTheNamedCall(t *testing.T) {
	t.Parallel()
	fake := sandboxtest.NewFake(t.TempDir(), sandboxtest.Fault{Method: sandboxtest.MethodCreate, Call: 2, Kind: sandboxtest.Fail})
	for call, wantErr := range []error{nil, sandboxtest.ErrFault, nil} {
		if _, err := fake.Create(context.Background(), sandboxtest.NewID(), sandbox.Class{}); !errors.Is(err, wantErr) {
			t.Errorf("call %d: got %v, want %v", call+1, err, wantErr)
		}
	}
	if err := fake.Close(); err != nil || len(fake.Living()) != 0 {
		t.Errorf("after Close: %v, %v", err, fake.Living())
	}
}
