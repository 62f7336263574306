// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"glovebox/internal/engine"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// diskLimit is the least that there is, so that an operator's maximum leaves room above it; disk_io.py takes two seconds.
const diskLimit = sandbox.MinDiskBandwidth

func slowDisk(o *policy.Overrides) { limit := int64(diskLimit); o.DiskBandwidth = &limit }

// carryOutTwice runs an attack with its limit and without. A host that refuses the limit by name does not support it.
func carryOutTwice(ctx context.Context, runner Runner, request engine.Request, a attack) Item {
	item := Item{Limit: a.limit, Mend: a.mend}
	limited := request
	a.limits(&limited.Limits)
	with, err := runner.Run(ctx, limited, nil)
	if unsupported, ok := errors.AsType[*sandbox.UnsupportedError](err); ok {
		return Item{Limit: a.limit, State: NotSupported, Evidence: "refused: " + unsupported.Feature}
	}
	var without *engine.Execution
	if err == nil {
		without, err = runner.Run(ctx, request, nil)
	}
	if err != nil {
		// No sandbox has this limit unless it asks for it: what could not be measured here is not relied on anywhere.
		item.State, item.Evidence = NotSupported, "the attack could not be run: "+err.Error()
		return item
	}
	item.State, item.Evidence = a.compare(without, with)
	if item.State == Enforced || item.State == NotSupported {
		item.Mend = ""
	}
	return item
}

// slowedDown wants the disk kept to the limit, and shown to be much faster without it.
func slowedDown(without, with *engine.Execution) (State, string) {
	free, why := diskRate(without)
	if why == "" {
		var kept float64
		if kept, why = diskRate(with); why == "" {
			return judgeRates(free, kept)
		}
	}
	if text, found := strings.CutPrefix(why, "unmeasured: "); found {
		return NotSupported, text
	}
	return NotSupported, why
}

func judgeRates(free, kept float64) (State, string) {
	evidence := fmt.Sprintf("read %s a second under a limit of %s, %s without one",
		policy.FormatSize(int64(kept)), policy.FormatSize(diskLimit), policy.FormatSize(int64(free)))
	switch {
	case kept > diskLimit*3/2:
		return NotEnforced, evidence
	case free < diskLimit*2:
		return NotSupported, evidence + ": this disk is too slow to show anything"
	}
	return Enforced, evidence
}

// diskRate takes the line of disk_io.py.
func diskRate(x *engine.Execution) (rate float64, why string) {
	line := firstLine(x.Stdout)
	if _, err := fmt.Sscanf(line, "read %f bytes a second", &rate); err == nil {
		return rate, ""
	}
	if strings.HasPrefix(line, "unmeasured: ") {
		return 0, line
	}
	return 0, fmt.Sprintf("the attack ended with %s: %s %s", x.Status, line, x.Message)
}
