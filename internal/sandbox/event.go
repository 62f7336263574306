// SPDX-License-Identifier: Apache-2.0

package sandbox

import "encoding/json"

// EventKind tells the kinds of Event apart.
type EventKind string

// The kinds of event. All contents are the sandbox's claim and hostile.
const (
	EventStdout  EventKind = "stdout"
	EventStderr  EventKind = "stderr"
	EventDisplay EventKind = "display" // a chart, a table, anything shown: Bundle
	EventResult  EventKind = "result"  // the value of a cell's last expression: Bundle
	EventError   EventKind = "error"   // an exception that ended the cell: Fault
	EventNotice  EventKind = "notice"  // something the user should know: Notice
	EventValue   EventKind = "value"   // a variable asked for by Code.Return: Name and Bundle
)

// Event is one thing that came out of an execution.
type Event struct {
	Kind EventKind `json:"kind"`
	// Text is the bytes of a stream as they were written; a character may be split between two events.
	Text []byte `json:"text,omitempty"`
	// Name is the variable's name of an EventValue.
	Name   string  `json:"name,omitempty"`
	Bundle *Bundle `json:"bundle,omitempty"`
	Fault  *Fault  `json:"fault,omitempty"`
	Notice *Notice `json:"notice,omitempty"`
	// Background marks output that did not come from the running cell but from a thread or child of an earlier one.
	Background bool `json:"background,omitempty"`
}

// Bundle is one value in several forms, by MIME type: a JSON string for text, base64 for binary types, or a JSON value
// for the JSON types. It is the form of Jupyter's display data.
type Bundle struct {
	Data     map[string]json.RawMessage `json:"data"`
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
}

// Fault is a program's uncaught exception.
type Fault struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback"`
}

// Notice is a warning with a stable code.
type Notice struct {
	Code string `json:"code"`
	Text string `json:"text"`
}
