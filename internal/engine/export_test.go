// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"glovebox/internal/auth"
	"glovebox/internal/sandbox"
)

// Expire does what the timer of a held sandbox does.
func Expire(e *Engine, id sandbox.ID) error {
	h, err := e.lookUp(auth.DefaultTenant, id)
	if err == nil {
		e.expire(h)
	}
	return err
}

// Load reads a record as it is on disk.
func (s *Store) Load(id sandbox.ID) (*Execution, error) { return s.load(auth.DefaultTenant, id) }
