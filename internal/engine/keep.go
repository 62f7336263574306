// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/sandbox"
	"glovebox/internal/store"
)

// The actions that are recorded as events.
const (
	ActionReadCode        = "code.read"
	ActionDeleteExecution = "execution.delete"
	ActionDeleteTenant    = "tenant.delete"
)

// Summary is what a list shows of an execution.
type Summary struct {
	ID        sandbox.ID `json:"id"`
	Status    Status     `json:"status"`
	ExitCode  int        `json:"exit_code"`
	Message   string     `json:"message,omitempty"`
	Truncated bool       `json:"truncated"`
	Output    Output     `json:"output"`
	// Artifacts is how many files the code left.
	Artifacts int       `json:"artifacts"`
	Usage     Usage     `json:"usage"`
	Policy    string    `json:"policy"`
	Image     string    `json:"image"`
	Backend   string    `json:"backend"`
	Created   time.Time `json:"created"`
	Tenant    string    `json:"tenant"`
	Key       string    `json:"key,omitempty"`
}

func summaryOf(x *Execution) Summary {
	return Summary{
		ID: x.ID, Status: x.Status, ExitCode: x.ExitCode, Message: x.Message, Truncated: x.Truncated, Output: x.Output,
		Artifacts: len(x.Artifacts), Usage: x.Usage, Policy: x.Policy, Image: x.Image, Backend: x.Backend, Created: x.Created,
		Tenant: x.Tenant, Key: x.Key,
	}
}

// Page is a part of a list.
type Page = store.Page

// MaxPage is how many a page may have.
const MaxPage = store.MaxPage

// List is a page of executions, the newest first. Next is where the next page begins, empty after the last.
type List struct {
	Executions []Summary `json:"executions"`
	Next       string    `json:"next,omitempty"`
}

// List lists a tenant's executions: those that are over, and detached ones from their beginning.
func (e *Engine) List(ctx context.Context, tenant string, page Page) (List, error) {
	if e.Store.Database == nil {
		return List{}, keepsNothing()
	}
	if err := checkPage(page); err != nil {
		return List{}, err
	}
	rows, next, err := e.Store.Database.Executions(ctx, tenant, page)
	if errors.Is(err, store.ErrPage) {
		return List{}, &Problem{Code: CodeInvalid, Text: "before: " + err.Error(), Err: err}
	}
	if err != nil {
		return List{}, e.Store.problem("", err)
	}
	list := List{Executions: make([]Summary, 0, len(rows)), Next: next}
	for _, row := range rows {
		summary := Summary{ID: sandbox.ID(row.ID), Created: row.Created, Tenant: row.Tenant, Key: row.Key} // of a row without one
		if len(row.Summary) > 0 {
			if err := json.Unmarshal(row.Summary, &summary); err != nil {
				return List{}, fmt.Errorf("read the summary of %s: %w", row.ID, err)
			}
		}
		summary.Status = Status(row.Status)
		if !summary.Status.Over() {
			summary.Message = ""
		}
		list.Executions = append(list.Executions, summary)
	}
	return list, nil
}

func checkPage(page Page) error {
	known := []string{"", string(StatusRunning)}
	for _, end := range sandbox.Ends() {
		known = append(known, string(end))
	}
	var faults []string
	if !slices.Contains(known, page.Status) {
		faults = append(faults, fmt.Sprintf("status %q is not known: choose one of %v", clip(page.Status, 40), known[1:]))
	}
	if page.Limit < 1 || page.Limit > MaxPage {
		faults = append(faults, fmt.Sprintf("limit is %d: 1 to %d are allowed", page.Limit, MaxPage))
	}
	if faults != nil {
		return &Problem{Code: CodeInvalid, Text: "the request is not valid", Faults: faults}
	}
	return nil
}

func keepsNothing() error {
	return &Problem{Code: CodeUnsupported, Text: "this process keeps nothing in a database: ask a server"}
}

// Code returns the code of an execution of the caller's tenant; that it was read is recorded.
func (e *Engine) Code(ctx context.Context, who *auth.Principal, id sandbox.ID) (string, error) {
	if e.Store.Database == nil {
		return "", keepsNothing()
	}
	if !id.Valid() {
		return "", noExecution(id)
	}
	source, err := e.Store.Database.Code(ctx, who.Tenant, string(id), e.event(who, ActionReadCode, string(id)))
	if err != nil {
		return "", e.Store.problem(id, err)
	}
	return source, nil
}

// Delete cancels an execution of the caller's tenant that is not over, waits for its end, and removes what is kept of it:
// its record, its code, its files. That it was deleted is recorded.
func (e *Engine) Delete(ctx context.Context, who *auth.Principal, id sandbox.ID) error {
	if a := e.find(who.Tenant, id); a != nil {
		if err := a.end(ctx, ErrDeleted); err != nil {
			return err
		}
	}
	return e.Store.remove(ctx, who.Tenant, id, e.event(who, ActionDeleteExecution, string(id)))
}

// end cancels an execution and waits for its end.
func (a *active) end(ctx context.Context, why error) error {
	a.cancel(why)
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// DeleteTenant removes everything of a tenant: keys first, so that nobody comes in, then what runs and lives, then all that
// is kept. Events stay, and have this one. A tenant is deleted by the operator, or by itself; another one is not found.
func (e *Engine) DeleteTenant(ctx context.Context, who *auth.Principal, tenant string) error {
	if e.Store.Database == nil {
		return keepsNothing()
	}
	if !auth.ValidTenant(tenant) || who.Key != "" && who.Tenant != tenant {
		return notFound(fmt.Sprintf("there is no tenant %q that this key may delete", clip(tenant, auth.MaxName)))
	}
	event := e.event(who, ActionDeleteTenant, tenant)
	event.Tenant = tenant
	if err := e.Store.Database.AddEvent(ctx, event); err != nil {
		return e.Store.problem("", err)
	}
	if err := e.Store.Database.DeleteTenant(ctx, tenant); err != nil {
		return e.Store.problem("", err)
	}
	if err := e.endTenant(ctx, tenant); err != nil {
		return err
	}
	return e.Store.removeTenant(ctx, tenant)
}

// endTenant ends all that runs and lives of a tenant.
func (e *Engine) endTenant(ctx context.Context, tenant string) error {
	var errs []error
	for _, h := range e.heldNow() {
		e.mu.Lock()
		made := h.timer != nil
		e.mu.Unlock()
		switch {
		case h.request.Who.Tenant != tenant:
		case made:
			errs = append(errs, e.drop(h, ErrReleased))
		default:
			h.end(ErrReleased) // whoever makes it cleans up
		}
	}
	e.mu.Lock()
	var running []*active
	for _, a := range e.active {
		if a.get().Tenant == tenant {
			running = append(running, a)
		}
	}
	e.mu.Unlock()
	for _, a := range running {
		a.cancel(ErrDeleted)
	}
	for _, a := range running {
		errs = append(errs, a.end(ctx, ErrDeleted))
	}
	return errors.Join(errs...)
}
