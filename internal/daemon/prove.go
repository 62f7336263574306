// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"strings"

	"glovebox/internal/engine"
	"glovebox/internal/proof"
)

// attacksAtOnce is how many attacks run at the same time: each may use a processor.
const attacksAtOnce = 2

// prove attacks every backend's limits. One that does not hold is a refusal to serve: whoever wants to serve all the same
// says so (prove: false). Without an image nothing can run, here or for a client, so nothing is at risk.
func (s *System) prove(ctx context.Context, image string) error {
	for _, backend := range s.backends {
		items, err := proof.Prove(ctx, s.Engine, backend.Name(), image, attacksAtOnce)
		if err != nil {
			return err
		}
		var texts []string
		for _, item := range proof.Broken(items) {
			texts = append(texts, fmt.Sprintf("%s: %s (%s)", item.Limit, item.State, item.Evidence))
		}
		switch {
		case len(texts) == len(items):
			s.log.WarnContext(ctx, "the limits of this host could not be attacked", "backend", backend.Name(), "first", texts[0])
		case len(texts) > 0:
			return &engine.Problem{Code: engine.CodeBackend, Text: fmt.Sprintf(
				"backend %s does not hold what it claims on this host: %s; `glovebox doctor` says how to mend it, and prove: false serves without this check",
				backend.Name(), strings.Join(texts, "; "))}
		default:
			s.log.InfoContext(ctx, "every limit was attacked and holds", "backend", backend.Name(), "limits", len(items))
		}
	}
	return nil
}
