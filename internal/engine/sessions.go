// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"glovebox/internal/interpreter"
	"glovebox/internal/sandbox"
)

// MaxSessionName bounds the characters of a session's name.
const MaxSessionName = 64

// heldSession is one interpreter of a held sandbox.
type heldSession struct {
	name    string
	spec    sandbox.OpenSpec
	created time.Time
	// changing is held while the interpreter is replaced or ended.
	changing sync.Mutex
	// These two are guarded by the sandbox's mu.
	live sandbox.Session
	busy bool
}

// SessionSpec asks for a session. Empty fields are the sandbox's own.
type SessionSpec struct {
	Name     string
	Language string
	Dir      string
	Env      map[string]string
}

// Session describes one.
type Session struct {
	Name     string    `json:"name"`
	Language string    `json:"language"`
	Dir      string    `json:"dir,omitempty"`
	State    HeldState `json:"state"`
	Created  time.Time `json:"created"`
}

func (s *SessionSpec) validate(h *held) error {
	var faults []error
	if s.Language == "" {
		s.Language = h.request.Language
	}
	if language, found := interpreter.Lookup(s.Language); found {
		s.Language = language.Name
		if h.decision.Limits.Processes < language.Processes {
			faults = append(faults, fmt.Errorf("limit processes of the sandbox is %d: %s needs at least %d", h.decision.Limits.Processes, s.Language, language.Processes))
		}
	}
	if s.Name != "" && !validSessionName(s.Name) {
		faults = append(faults, fmt.Errorf("name %q: a session's name has 1 to %d letters, digits, - and _", clip(s.Name, 40), MaxSessionName))
	}
	if s.Dir != "" {
		dir, err := cleanPath(s.Dir)
		faults, s.Dir = append(faults, err), dir
	}
	faults = append(faults, (&Request{Env: s.Env}).validateEnv())
	if err := errors.Join(faults...); err != nil {
		return problemOf(err)
	}
	return nil
}

func validSessionName(name string) bool {
	return len(name) <= MaxSessionName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// OpenSession opens one more session of a tenant's sandbox, in any of the languages.
func (e *Engine) OpenSession(ctx context.Context, tenant string, id sandbox.ID, spec SessionSpec) (Session, error) {
	h, ctx, leave, err := e.visit(ctx, tenant, id)
	if err != nil {
		return Session{}, err
	}
	defer leave()
	if err := errors.Join(spec.validate(h), e.open()); err != nil {
		return Session{}, err
	}
	// Its place is taken first, so that no more are started than may be.
	s := &heldSession{name: spec.Name, created: e.Now(), spec: sandbox.OpenSpec{Language: spec.Language, Dir: spec.Dir, Env: spec.Env}}
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := h.reserve(s); err != nil {
		return Session{}, err
	}
	live, err := e.openIn(ctx, h, s)
	if err != nil {
		h.forget(s)
		return Session{}, h.explain(err)
	}
	h.setLive(s, live)
	return h.describeSession(s), nil
}

func (e *Engine) openIn(ctx context.Context, h *held, s *heldSession) (sandbox.Session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.Patience.Setup, errWatchdog)
	defer cancel()
	return h.box.Open(ctx, s.spec)
}

// SessionsIn lists the sessions of a tenant's sandbox, in the order of their making.
func (e *Engine) SessionsIn(tenant string, id sandbox.ID) ([]Session, error) {
	h, err := e.lookUp(tenant, id)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []Session{}
	for _, name := range h.order {
		list = append(list, h.sessions[name].describe())
	}
	return list, nil
}

// InterruptSession raises the language's interrupt in the cell that runs in a session, if one does; state is kept.
func (e *Engine) InterruptSession(ctx context.Context, tenant string, id sandbox.ID, name string) error {
	h, ctx, leave, err := e.visit(ctx, tenant, id)
	if err != nil {
		return err
	}
	defer leave()
	s, err := h.session(name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	live, busy := s.live, s.busy
	h.mu.Unlock()
	if !busy || live == nil {
		return nil
	}
	return h.explain(live.Interrupt(ctx))
}

// RestartSession puts a new interpreter in the place of a session's: what runs in it is ended, its variables are gone.
func (e *Engine) RestartSession(ctx context.Context, tenant string, id sandbox.ID, name string) (Session, error) {
	h, ctx, leave, err := e.visit(ctx, tenant, id)
	if err != nil {
		return Session{}, err
	}
	defer leave()
	s, err := h.session(name)
	if err != nil {
		return Session{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := e.endLive(ctx, h, s); err != nil {
		return Session{}, h.explain(err)
	}
	live, err := e.openIn(ctx, h, s)
	if err != nil {
		h.forget(s)
		return Session{}, h.explain(err)
	}
	if !h.setLive(s, live) { // it was closed meanwhile
		return Session{}, errors.Join(h.noSession(name), live.Close(context.WithoutCancel(ctx)))
	}
	return h.describeSession(s), nil
}

// CloseSession ends a session and what runs in it.
func (e *Engine) CloseSession(ctx context.Context, tenant string, id sandbox.ID, name string) error {
	h, ctx, leave, err := e.visit(ctx, tenant, id)
	if err != nil {
		return err
	}
	defer leave()
	s, err := h.session(name)
	if err != nil {
		return err
	}
	h.forget(s)
	s.changing.Lock()
	defer s.changing.Unlock()
	return h.explain(e.endLive(ctx, h, s))
}

// endLive ends a session's interpreter; one that is gone already is fine.
func (e *Engine) endLive(ctx context.Context, h *held, s *heldSession) error {
	h.mu.Lock()
	live := s.live
	h.mu.Unlock()
	if live == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.Patience.Cleanup, errWatchdog)
	defer cancel()
	if err := live.Close(ctx); err != nil && !errors.Is(err, sandbox.ErrGone) {
		return err
	}
	return nil
}

// reopen puts a new interpreter in the place of one that went away by itself. Without one the session is over.
func (e *Engine) reopen(ctx context.Context, h *held, s *heldSession, lost sandbox.Session) {
	s.changing.Lock()
	defer s.changing.Unlock()
	if !h.stillHas(s, lost) {
		return // somebody restarted or closed it
	}
	live, err := e.openIn(context.WithoutCancel(ctx), h, s)
	if err == nil {
		if !h.setLive(s, live) {
			_ = live.Close(context.WithoutCancel(ctx)) // the sandbox's end ends it at the latest
		}
		return
	}
	h.forget(s)
	if errors.Is(err, sandbox.ErrGone) {
		_ = e.drop(h, err) // it is in the log
	}
}

func (s *heldSession) describe() Session {
	state := HeldIdle
	if s.busy {
		state = HeldBusy
	}
	return Session{Name: s.name, Language: s.spec.Language, Dir: s.spec.Dir, State: state, Created: s.created}
}

func (h *held) describeSession(s *heldSession) Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return s.describe()
}

func (h *held) noSession(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.noSessionLocked(name)
}

func (h *held) noSessionLocked(name string) error {
	return notFound(fmt.Sprintf("sandbox %s has no session %q: it has %v", h.id, clip(name, MaxName), h.order))
}

// session finds one by its name; empty is the first.
func (h *held) session(name string) (*heldSession, error) {
	if name == "" {
		name = MainSession
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[name]; s != nil {
		return s, nil
	}
	return nil, h.noSessionLocked(name)
}

// enter finds a session and keeps the sandbox alive until leave.
func (h *held) enter(name string) (*heldSession, sandbox.Session, error) {
	s, err := h.session(name)
	if err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.live == nil {
		return nil, nil, &Problem{Code: CodeBusy, Text: fmt.Sprintf("session %s is being opened: wait for it", s.name)}
	}
	h.running++
	return s, s.live, nil
}

// begin takes a session for one cell, until finish.
func (h *held) begin(s *heldSession) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.busy {
		return &Problem{Code: CodeBusy, Text: sandbox.ErrBusy.Error(), Err: sandbox.ErrBusy}
	}
	s.busy = true
	return nil
}

func (h *held) finish(s *heldSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.busy = false
}

func (h *held) add(s *heldSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked(s)
}

func (h *held) addLocked(s *heldSession) {
	h.sessions[s.name] = s
	h.order = append(h.order, s.name)
}

func (h *held) tooManyLocked() error {
	if len(h.sessions) >= MaxSessions {
		return &Problem{Code: CodeOverloaded, Text: fmt.Sprintf("a sandbox may have %d sessions", MaxSessions)}
	}
	return nil
}

// reserve gives a session its place and, if it has none, its name.
func (h *held) reserve(s *heldSession) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.tooManyLocked(); err != nil {
		return err
	}
	if s.name == "" {
		s.name = h.freeNameLocked("session")
	}
	if h.sessions[s.name] != nil {
		return &Problem{Code: CodeExists, Text: fmt.Sprintf("sandbox %s has a session %s already: choose another name, or close that one", h.id, s.name)}
	}
	h.addLocked(s)
	return nil
}

func (h *held) freeNameLocked(prefix string) string {
	for {
		h.next++
		if name := prefix + strconv.Itoa(h.next); h.sessions[name] == nil {
			return name
		}
	}
}

// addNext gives a sibling its name.
func (h *held) addNext(session sandbox.Session, spec sandbox.OpenSpec, now time.Time) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.tooManyLocked(); err != nil {
		return "", err
	}
	s := &heldSession{name: h.freeNameLocked("fork"), spec: spec, created: now, live: session}
	h.addLocked(s)
	return s.name, nil
}

// setLive gives a session its interpreter, unless the session is gone.
func (h *held) setLive(s *heldSession, live sandbox.Session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.name] != s {
		return false
	}
	s.live = live
	return true
}

func (h *held) stillHas(s *heldSession, live sandbox.Session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[s.name] == s && s.live == live
}

// forget takes a session off the list.
func (h *held) forget(s *heldSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.name] != s {
		return
	}
	delete(h.sessions, s.name)
	h.order = slices.DeleteFunc(h.order, func(name string) bool { return name == s.name })
}
