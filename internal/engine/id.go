// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/rand"
	"strings"

	"glovebox/internal/sandbox"
)

const (
	incarnationLength = 8
	randomLength      = 18
)

// NewIDs returns a source of ids: the incarnation of this process, so that one day a request can be routed by the id
// alone, and a random part that cannot be guessed.
func NewIDs() func() sandbox.ID {
	incarnation := randomText(incarnationLength)
	return func() sandbox.ID { return sandbox.ID(incarnation + randomText(randomLength)) }
}

func randomText(length int) string { return strings.ToLower(rand.Text())[:length] }
