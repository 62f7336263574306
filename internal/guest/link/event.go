// SPDX-License-Identifier: Apache-2.0

package link

import (
	"glovebox/internal/guest/wire"
	"glovebox/internal/sandbox"
)

// isEvent reports whether an execution may emit this kind.
func isEvent(kind wire.Kind) bool {
	switch kind {
	case wire.KindStdout, wire.KindStderr, wire.KindDisplay, wire.KindResult, wire.KindError, wire.KindNotice,
		wire.KindValue:
		return true
	default:
		return false
	}
}

// eventOf turns a message of an execution into an event. User code can write what it likes into its own channel, so
// text that does not parse is no reason to end anything: it becomes a notice.
func eventOf(m wire.Message) sandbox.Event {
	event, err := decodeEvent(m)
	if err != nil {
		return sandbox.Event{Kind: sandbox.EventNotice, Notice: &sandbox.Notice{
			Code: "output.malformed", Text: "a message of the program was not readable and was dropped",
		}}
	}
	return event
}

func decodeEvent(m wire.Message) (sandbox.Event, error) {
	switch m.Kind {
	case wire.KindStdout:
		return sandbox.Event{Kind: sandbox.EventStdout, Text: m.Payload}, nil
	case wire.KindStderr:
		return sandbox.Event{Kind: sandbox.EventStderr, Text: m.Payload}, nil
	case wire.KindError:
		fault := &sandbox.Fault{}
		return sandbox.Event{Kind: sandbox.EventError, Fault: fault}, m.Decode(fault)
	case wire.KindNotice:
		notice := &sandbox.Notice{}
		return sandbox.Event{Kind: sandbox.EventNotice, Notice: notice}, m.Decode(notice)
	case wire.KindValue:
		value := &wire.Value{}
		err := m.Decode(value)
		bundle := &sandbox.Bundle{Data: value.Data, Metadata: value.Metadata}
		return sandbox.Event{Kind: sandbox.EventValue, Name: value.Name, Bundle: bundle}, err
	default:
		kind := sandbox.EventDisplay
		if m.Kind == wire.KindResult {
			kind = sandbox.EventResult
		}
		bundle := &sandbox.Bundle{}
		return sandbox.Event{Kind: kind, Bundle: bundle}, m.Decode(bundle)
	}
}

func backgroundEvent(m wire.Message) sandbox.Event {
	kind := sandbox.EventStdout
	if m.Kind == wire.KindBackgroundStderr {
		kind = sandbox.EventStderr
	}
	return sandbox.Event{Kind: kind, Text: m.Payload, Background: true}
}
