// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// visit keeps a tenant's sandbox from being idle while something is done in it, and ends that with the sandbox.
func (e *Engine) visit(ctx context.Context, tenant string, id sandbox.ID) (*held, context.Context, func(), error) {
	h, err := e.lookUp(tenant, id)
	if err != nil {
		return nil, nil, nil, err
	}
	h.mu.Lock()
	h.running++
	h.mu.Unlock()
	ctx, part := h.join(ctx)
	return h, ctx, func() { part(); h.leave(e.Now) }, nil
}

// open refuses new work in sandboxes while the server shuts down.
func (e *Engine) open() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return shuttingDown()
	}
	return nil
}

// explain makes a Problem of what went wrong inside a sandbox, and leaves what it does not know.
func (h *held) explain(err error) error {
	var problem *Problem
	var unsupported *sandbox.UnsupportedError
	var refused *sandbox.RefusedError
	h.mu.Lock()
	why := h.why
	h.mu.Unlock()
	as := func(code Code, text string) error { return &Problem{Code: code, Text: text, Err: err} }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &problem):
		return err
	case why != nil:
		return h.goneFor(why)
	case errors.As(err, &unsupported):
		return as(CodeUnsupported, unsupported.Error())
	case errors.As(err, &refused):
		return as(CodeInvalid, refused.Error())
	case errors.Is(err, fs.ErrNotExist):
		return as(CodeNotFound, err.Error())
	case errors.Is(err, fs.ErrPermission):
		return as(CodeDenied, err.Error())
	case errors.Is(err, sandbox.ErrFull):
		return as(CodeTooLarge, fmt.Sprintf("%v: its limit disk is %s, and inodes %d; remove something, or make a sandbox with more",
			err, policy.FormatSize(h.decision.Limits.Disk), h.decision.Limits.Inodes))
	case errors.Is(err, sandbox.ErrDeaf), errors.Is(err, sandbox.ErrBusy):
		return as(CodeBusy, err.Error())
	case errors.Is(err, sandbox.ErrGone):
		return as(CodeNotFound, fmt.Sprintf("what was asked for in sandbox %s is gone: %v", h.id, err))
	}
	return err
}

// goneFor says that the sandbox came to its end meanwhile, as a later request will be told.
func (h *held) goneFor(why error) error {
	if lease, ok := errors.AsType[*leaseError](why); ok {
		return &Problem{Code: CodeExpired, Text: fmt.Sprintf("sandbox %s is gone: %s", h.id, lease), Err: why}
	}
	if errors.Is(why, ErrShutdown) {
		return shuttingDown()
	}
	return &Problem{Code: CodeNotFound, Text: fmt.Sprintf("sandbox %s is gone: %v", h.id, why), Err: why}
}

func (h *held) describe() Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := HeldIdle
	if h.running > 0 {
		state = HeldBusy
	}
	return Held{
		ID: h.id, State: state, Backend: h.backend.Name(), Image: h.image, Policy: h.decision.Policy, Language: h.request.Language,
		Created: h.created, Sessions: append([]string{}, h.order...), Metadata: h.terms.Metadata,
		Limits: limitsOf(h.decision.Limits, nil), IdleUntil: h.idle, Until: h.until,
		Lease: LeaseTerms{Idle: h.terms.Idle.Seconds(), Hard: h.terms.Hard.Seconds()},
	}
}

func (h *held) touch(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = now.Add(h.terms.Idle)
}

func (h *held) leave(now func() time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	h.idle = now().Add(h.terms.Idle)
}
