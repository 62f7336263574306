// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"encoding/json"
	"errors"

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
		value, err := decodeBundle(m)
		return sandbox.Event{Kind: sandbox.EventValue, Name: value.Name, Bundle: value.bundle()}, err
	default:
		kind := sandbox.EventDisplay
		if m.Kind == wire.KindResult {
			kind = sandbox.EventResult
		}
		value, err := decodeBundle(m)
		return sandbox.Event{Kind: kind, Bundle: value.bundle()}, err
	}
}

// maxForms bounds the members of a bundle's objects. Each costs many times its own bytes.
const maxForms = 64

var errForms = errors.New("a bundle has too many forms")

// forms is the data or the metadata of a bundle.
type forms map[string]json.RawMessage

// UnmarshalJSON reads an object of at most maxForms members, and stops at the first one beyond.
func (f *forms) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return err // null, or no object: nothing is in it
	}
	*f = forms{}
	for n := 0; decoder.More(); n++ {
		if n >= maxForms {
			return errForms
		}
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		text, ok := name.(string)
		if !ok {
			return errors.New("a name that is no text")
		}
		(*f)[text] = value
	}
	return nil
}

// namedBundle is a wire.Value or, without the name, a sandbox.Bundle.
type namedBundle struct {
	Name     string `json:"name"`
	Data     forms  `json:"data"`
	Metadata forms  `json:"metadata"`
}

func decodeBundle(m wire.Message) (namedBundle, error) {
	var b namedBundle
	err := m.Decode(&b)
	return b, err
}

func (b namedBundle) bundle() *sandbox.Bundle {
	return &sandbox.Bundle{Data: b.Data, Metadata: b.Metadata}
}

func backgroundEvent(m wire.Message) sandbox.Event {
	kind := sandbox.EventStdout
	if m.Kind == wire.KindBackgroundStderr {
		kind = sandbox.EventStderr
	}
	return sandbox.Event{Kind: kind, Text: m.Payload, Background: true}
}
