// SPDX-License-Identifier: Apache-2.0

package escapes_test

import (
	"testing"

	"glovebox/internal/sandbox"
	"glovebox/test/escapes"
)

// TestJudgeSeesABreach is the control of the probes in JavaScript: one that says BREACH, one that says nothing and one that
// is not stopped by any limit are found out, in a real sandbox.
func TestJudgeSeesABreach(t *testing.T) {
	b := newNative(t)
	for source, expect := range map[string]string{
		"console.log('BREACH: said so'); console.log('CONTAINED')": "contained",
		"throw new Error('before the end')":                        "contained",
		"console.log('no loop')":                                   "timeout",
		"console.log('no bomb')":                                   "oom",
	} {
		p := escapes.Probe{Name: "control", File: "control.js", Language: "javascript", Source: source, Expect: expect, Profile: sandbox.ProfileStandard}
		v, err := run(t.Context(), b, "control", sandbox.WarmNone, p)
		if err != nil {
			t.Fatal(err)
		}
		if judge(p, v) == "" {
			t.Errorf("%q with %q was not found out: end %s, %q", source, expect, v.result.End, v.output)
		}
	}
}
