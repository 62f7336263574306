// SPDX-License-Identifier: Apache-2.0

package escapes_test

import (
	"os"
	"testing"

	"glovebox/internal/sandbox"
	"glovebox/test/escapes"
)

func TestScratch(t *testing.T) {
	b := newNative(t)
	probes, err := escapes.Load(os.Getenv("SCRATCH"))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range probes {
		for n, warm := range []sandbox.Warmth{sandbox.WarmNone, sandbox.WarmPlain} {
			t.Run(p.Name, func(t *testing.T) {
				v, err := run(t.Context(), b, sandbox.ID("s"+string(rune('a'+i))+string(rune('0'+n))), warm, p)
				why := judge(p, v)
				t.Logf("%s: end %s fault %q peak %d MiB err %v why %q out %.300q", p.Name, v.result.End, v.fault, v.result.Usage.MemoryPeak>>20, err, why, v.output)
			})
		}
	}
}
