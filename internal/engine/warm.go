// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"

	"glovebox/internal/sandbox"
)

// Pooled is what a backend with a pool in front of it says of itself.
type Pooled interface {
	Pooled() bool
}

// warmth chooses how warm the sandbox of a request should be. Without a pool there is nothing ready, and warming a
// sandbox for one run would cost more than it saves. With one, code that speaks of drawing gets a sandbox that has
// drawn a chart. It is a guess about speed: a wrong one costs a fifth of a second and nothing else.
func warmth(backend sandbox.Backend, request *Request) sandbox.Warmth {
	if pooled, ok := backend.(Pooled); !ok || !pooled.Pooled() || request.Fresh || request.Language != sandbox.WarmLanguage {
		return sandbox.WarmNone
	}
	for _, word := range []string{"matplotlib", "pyplot", "plt.", "seaborn", "sns.", ".plot(", ".plot.", ".hist("} {
		if strings.Contains(request.Code, word) {
			return sandbox.WarmChart
		}
	}
	return sandbox.WarmPlain
}
