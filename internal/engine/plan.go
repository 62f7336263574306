// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/interpreter"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// plan is a request that was judged: all that an execution needs to begin.
type plan struct {
	id           sandbox.ID
	request      *Request
	decision     policy.Decision
	backend      sandbox.Backend
	image        string
	class        sandbox.Class
	created      time.Time
	releaseImage func()
	// ticket is the execution's place or its spot in the queue; leave gives it back.
	ticket *ticket
	leave  func()
	// session, if set, is where the code runs: one of a held sandbox, which outlives the execution.
	session sandbox.Session
}

// plan judges a request: every fault at once.
func (e *Engine) plan(request *Request) (*plan, error) {
	request.Who = request.who()
	settings := e.settings.Load()
	if request.Policy == "" {
		request.Policy = settings.Policy
	}
	if request.Image == "" {
		request.Image = e.Image
	}
	if request.Language == "" {
		request.Language = DefaultLanguage
	}
	// One name for a language, whatever it was called. What the table does not have the backend refuses.
	language, found := interpreter.Lookup(request.Language)
	if found {
		request.Language = language.Name
		if request.Name == "" {
			request.Name = language.Script
		}
	}
	decision, policyErr := policy.Decide(request.Policy, request.Limits, settings.Maxima)
	backend, backendErr := e.backend(request.Backend)
	var processesErr error
	if least := language.Processes; policyErr == nil && decision.Limits.Processes < least {
		processesErr = fmt.Errorf("limit processes is %d: %s needs at least %d to start", decision.Limits.Processes, language.Name, least)
	}
	if err := errors.Join(request.validate(), policyErr, backendErr, processesErr, request.Who.Allows(decision.Policy, request.Image)); err != nil {
		return nil, problemOf(err)
	}
	ref, release, err := e.Images.Use(request.Image)
	if err != nil {
		return nil, err
	}
	return &plan{
		id: e.NewID(), request: request, decision: decision, backend: backend, image: request.Image,
		class:   sandbox.Class{Image: ref, Profile: decision.Profile, Network: decision.Network, Warm: warmth(backend, request)},
		created: e.Now(), releaseImage: release,
	}, nil
}

// problemOf makes one Problem of all faults of a request; its code is that of a limit when only limits are wrong.
func problemOf(err error) error {
	faults := flatten(err)
	problem := &Problem{Code: CodeInvalid, Text: "the request is not valid", Faults: faults, Err: err}
	var limit *policy.LimitError
	if errors.As(err, &limit) && limit.Above && len(faults) == 1 {
		problem.Code = CodeLimit
	}
	return problem
}

// AutoBackend is the name that asks for the strongest backend of the host.
const AutoBackend = "auto"

func (e *Engine) backend(name string) (sandbox.Backend, error) {
	if name == "" || name == AutoBackend {
		return e.Backends[0], nil
	}
	var names []string
	for _, backend := range e.Backends {
		if backend.Name() == name {
			return backend, nil
		}
		names = append(names, backend.Name())
	}
	return nil, fmt.Errorf("backend %q is not there: choose %s or one of %s", clip(name, 40), AutoBackend, strings.Join(names, ", "))
}

// blank is the record of a plan before anything has happened.
func (p *plan) blank(status Status) *Execution {
	return &Execution{
		ID: p.id, Status: status, Results: []Data{}, Artifacts: []artifact.Artifact{}, Warnings: []sandbox.Notice{},
		Limits: limitsOf(p.decision.Limits, nil), Policy: p.decision.Policy, Image: p.image, Backend: p.backend.Name(),
		Created: p.created, Tenant: p.request.Who.Tenant, Key: p.request.Who.Key,
	}
}
