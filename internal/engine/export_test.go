// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"

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

// Record does what an execution costs beside its sandbox: its folder, what it prints, its record.
func (s *Store) Record(ctx context.Context, x *Execution, printed string) error {
	f, err := s.create(x.ID)
	if err != nil {
		return err
	}
	out := newStream("stdout", f.file("stdout"), InlineHead)
	out.write([]byte(printed))
	x.Output.Stdout = out.totals(0)
	return errors.Join(f.keep(ctx, x, "print(1)"), f.close())
}
