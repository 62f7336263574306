// SPDX-License-Identifier: Apache-2.0

package proof_test

import (
	"context"
	"testing"

	"glovebox/internal/engine"
	"glovebox/internal/proof"
	"glovebox/internal/sandbox"
)

// disk answers with one text where the disk is limited, and with another where it is not.
type disk struct {
	with, without string
	err           error
}

func (d disk) Run(_ context.Context, request engine.Request, _ engine.Sink) (*engine.Execution, error) {
	if request.Limits.DiskBandwidth == nil {
		return &engine.Execution{Status: "ok", Stdout: d.without}, nil
	}
	if d.err != nil {
		return nil, d.err
	}
	return &engine.Execution{Status: "ok", Stdout: d.with}, nil
}

// TestDiskIsJudgedByRatio: a limit is enforced only where the same disk is shown to be faster without it, and a host that
// refuses the limit is called not supported, which is no fault.
func TestDiskIsJudgedByRatio(t *testing.T) {
	t.Parallel()
	const slow, fast = "read 1048576 bytes a second\n", "read 300000000 bytes a second\n"
	refused := &engine.Problem{Err: &sandbox.UnsupportedError{Backend: "native", Feature: "the limit disk_bandwidth"}}
	for name, c := range map[string]struct {
		runner disk
		want   proof.State
	}{
		"kept":             {disk{with: slow, without: fast}, proof.Enforced},
		"not kept":         {disk{with: fast, without: fast}, proof.NotEnforced},
		"a slow disk":      {disk{with: slow, without: slow}, proof.NotSupported},
		"refused":          {disk{without: fast, err: refused}, proof.NotSupported},
		"no disk":          {disk{with: "unmeasured: no disk", without: "unmeasured: no disk"}, proof.NotSupported},
		"no figure":        {disk{with: slow, without: "Traceback"}, proof.NotSupported},
		"broken otherwise": {disk{without: fast, err: context.DeadlineExceeded}, proof.NotSupported},
	} {
		items, err := proof.Prove(t.Context(), c.runner, proof.Target{Backend: "native", Image: "python"}, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			if item.Limit == "disk_io" && (item.State != c.want || item.Evidence == "") {
				t.Errorf("%s: %+v, want %s", name, item, c.want)
			}
		}
	}
}
