// SPDX-License-Identifier: Apache-2.0

package sandboxtest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"glovebox/internal/sandbox"
)

// ErrFault is what a planned failure returns.
var ErrFault = errors.New("planned fault")

// FaultKind says how a call goes wrong.
type FaultKind string

// The kinds of fault.
const (
	// Fail returns ErrFault and does nothing.
	Fail FaultKind = "fail"
	// Hang returns only when the caller's context is done.
	Hang FaultKind = "hang"
	// Lie returns and emits things that cannot be: unknown ends, negative sizes, broken JSON, huge and invalid text.
	Lie FaultKind = "lie"
	// Truncate does half and then fails.
	Truncate FaultKind = "truncate"
)

// FaultKinds returns every kind.
func FaultKinds() []FaultKind { return []FaultKind{Fail, Hang, Lie, Truncate} }

// Method names one call of the contract.
type Method string

// The methods that a Fault can hit.
const (
	MethodCreate    Method = "Create"
	MethodLease     Method = "Lease"
	MethodOpen      Method = "Open"
	MethodStart     Method = "Start"
	MethodExec      Method = "Exec"
	MethodInterrupt Method = "Interrupt"
	MethodUsage     Method = "Usage"
	MethodStop      Method = "Stop"
	MethodWorkspace Method = "Workspace"
	MethodDestroy   Method = "Destroy"
)

// Methods returns the methods of a run that a Fault can hit, in the order of a sandbox's life.
func Methods() []Method {
	return []Method{
		MethodCreate, MethodLease, MethodOpen, MethodExec, MethodInterrupt, MethodStop, MethodWorkspace, MethodUsage,
		MethodDestroy,
	}
}

// Fault makes the call number Call (from 1) of Method go wrong.
type Fault struct {
	Method Method
	Call   int
	Kind   FaultKind
}

// Plan is what shall go wrong.
type Plan []Fault

func (p Plan) kind(method Method, call int) FaultKind {
	for _, fault := range p {
		if fault.Method == method && fault.Call == call {
			return fault.Kind
		}
	}
	return ""
}

// begin counts a call and carries out the faults that need no knowledge of the method. The kind is returned for Lie and
// Truncate, which the method carries out itself.
func (f *Fake) begin(ctx context.Context, method Method) (FaultKind, error) {
	f.mu.Lock()
	f.calls[method]++
	f.log = append(f.log, method)
	kind := f.plan.kind(method, f.calls[method])
	f.mu.Unlock()
	switch kind {
	case Fail:
		return kind, ErrFault
	case Hang:
		<-ctx.Done()
		return kind, context.Cause(ctx)
	case Lie, Truncate:
		return kind, nil
	default:
		return kind, ctx.Err()
	}
}

// lies are events that an honest interpreter never sends.
func lies() []sandbox.Event {
	raw := func(text string) json.RawMessage { return json.RawMessage(text) }
	bundle := func(data map[string]json.RawMessage) *sandbox.Bundle { return &sandbox.Bundle{Data: data} }
	many := map[string]json.RawMessage{}
	for i := range 200 {
		many["text/x-"+strings.Repeat("a", i+1)] = raw(`"x"`)
	}
	events := []sandbox.Event{
		{Kind: "made-up", Text: []byte("x")},
		{Kind: sandbox.EventStdout, Text: []byte("\xff\xfe\x80 not UTF-8 \xed\xa0\x80\n")},
		{Kind: sandbox.EventStderr, Text: []byte(strings.Repeat("e", 3<<20))},
		{Kind: sandbox.EventDisplay},
		{Kind: sandbox.EventDisplay, Bundle: bundle(nil)},
		{Kind: sandbox.EventDisplay, Bundle: bundle(map[string]json.RawMessage{"text/plain": raw(`"broken`)})},
		{Kind: sandbox.EventDisplay, Bundle: bundle(map[string]json.RawMessage{"text/plain": nil})},
		{Kind: sandbox.EventDisplay, Bundle: bundle(map[string]json.RawMessage{"image/png": raw(`"not base64!"`)})},
		{Kind: sandbox.EventDisplay, Bundle: bundle(map[string]json.RawMessage{"image/png": raw(`{"a":1}`)})},
		{Kind: sandbox.EventDisplay, Bundle: bundle(map[string]json.RawMessage{"text/html\r\nX: y": raw(`"x"`), "/": raw(`"x"`)})},
		{Kind: sandbox.EventDisplay, Bundle: bundle(many)},
		{Kind: sandbox.EventResult, Bundle: bundle(map[string]json.RawMessage{
			"text/plain": raw(`"` + strings.Repeat("y", 30<<20) + `"`),
		})},
		{Kind: sandbox.EventError},
		{Kind: sandbox.EventError, Fault: &sandbox.Fault{
			Name: strings.Repeat("N", 1<<20), Value: "\xff" + strings.Repeat("v", 4<<20), Traceback: strings.Repeat("t\n", 4<<20),
		}},
		{Kind: sandbox.EventNotice},
		{Kind: sandbox.EventNotice, Notice: &sandbox.Notice{Code: "A B\n", Text: strings.Repeat("\x00", 1<<20)}},
		{Kind: sandbox.EventValue, Name: "never_asked", Bundle: bundle(map[string]json.RawMessage{"text/plain": raw(`"x"`)})},
		{Kind: sandbox.EventValue, Name: strings.Repeat("n", 1<<20)},
	}
	for range 2000 {
		events = append(events, sandbox.Event{
			Kind: sandbox.EventDisplay, Bundle: bundle(map[string]json.RawMessage{"text/plain": raw(`"one of very many"`)}),
		})
	}
	return events
}

func lyingResult() sandbox.Result {
	return sandbox.Result{
		End: "splendid", ExitCode: -70000, Signal: 9999,
		Hits:  []sandbox.Hit{{Limit: "patience", Measured: -1, Value: -1}, {Limit: sandbox.LimitMemory, Measured: -5}},
		Usage: lyingUsage(), Detail: "\xff\x1b[31m" + strings.Repeat("d", 1<<20),
	}
}

func lyingUsage() sandbox.Usage {
	return sandbox.Usage{Wall: -time.Hour, CPU: -1, MemoryPeak: -1 << 60, PIDsPeak: -1, OOMKills: -1, PIDRefusals: -1}
}
