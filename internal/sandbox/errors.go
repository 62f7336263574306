// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Errors that callers tell apart.
var (
	// ErrGone: the sandbox or session does not exist any more.
	ErrGone = errors.New("the sandbox is gone")
	// ErrBusy: the session already runs a cell.
	ErrBusy = errors.New("the session is busy with another cell: wait for it or interrupt it")
	// ErrLeased: Lease was called twice, or Open before Lease.
	ErrLeased = errors.New("a sandbox is leased exactly once, before anything is started in it")
	// ErrFull: the disk limit of the sandbox is used up, or that on the number of its files.
	ErrFull = errors.New("the sandbox's disk is full")
	// ErrDeaf: a process does not read its standard input.
	ErrDeaf = errors.New("the process does not read its standard input: wait and send again")
	// ErrUnavailable: the host lacks something that the backend needs. The message names it and how to mend it.
	ErrUnavailable = errors.New("the backend is not available on this host")
)

// RefusedError is what something inside a sandbox refused, in its own words.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return fmt.Sprintf("refused inside the sandbox: %q", e.Reason) }

// UnsupportedError says that a backend cannot do something.
type UnsupportedError struct {
	Backend string
	Feature string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("backend %s does not support %s", e.Backend, e.Feature)
}

// Unsupported is embedded by sandboxes for the features they lack. Each method refuses with an UnsupportedError.
type Unsupported struct{ Backend string }

func (u Unsupported) refuse(feature string) error {
	return &UnsupportedError{Backend: u.Backend, Feature: feature}
}

// Pause refuses.
func (u Unsupported) Pause(context.Context) error { return u.refuse("pausing a sandbox") }

// Resume refuses.
func (u Unsupported) Resume(context.Context) error { return u.refuse("resuming a sandbox") }

// Snapshot refuses.
func (u Unsupported) Snapshot(context.Context, string) error { return u.refuse("snapshots") }

// Update refuses.
func (u Unsupported) Update(context.Context, Limits) error {
	return u.refuse("changing the limits of a living sandbox")
}

// Dial refuses.
func (u Unsupported) Dial(context.Context, uint16) (net.Conn, error) {
	return nil, u.refuse("connecting to a port inside a sandbox")
}
