// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Kind tells the kinds of Event apart.
type Kind string

// The kinds of event, and which fields each has besides Background.
const (
	KindStarted Kind = "started" // ID: what follows, and Get, speak of this execution
	KindStdout  Kind = "stdout"  // Text
	KindStderr  Kind = "stderr"  // Text
	KindDisplay Kind = "display" // Data: a chart, a table, anything shown
	KindResult  Kind = "result"  // Data: the value of the last expression
	KindValue   Kind = "value"   // Name and Data: a variable that Return named
	KindError   Kind = "error"   // Fault: the exception that ended the code
	KindNotice  Kind = "notice"  // Notice: something the user should know
)

// Event is one thing that came out of an execution.
type Event struct {
	Kind Kind
	ID   string
	// Text is the bytes that were printed: UTF-8, with no character cut, where the program printed such.
	Text   []byte
	Name   string
	Data   Data
	Fault  *Fault
	Notice *Notice
	// Background marks what did not come from the running cell but from a thread or child of an earlier one.
	Background bool
}

// ErrEnded says that the stream of an execution ended before the execution: the server or the connection is gone. What
// became of it, Get says while the server keeps the record.
var ErrEnded = errors.New("the stream ended before the execution did")

// stream asks for an execution as a stream and follows it to its end.
func (c *Client) stream(ctx context.Context, asked call, each func(Event) error) (*Execution, error) {
	asked.method, asked.accept = http.MethodPost, "text/event-stream"
	answer, err := c.send(ctx, asked)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	x, err := follow(answer.Body, c.most, each)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, fmt.Errorf("the execution was left: %w", cause)
	}
	return x, err
}

// follow reads Server-Sent Events up to the record.
func follow(source io.Reader, most int64, each func(Event) error) (*Execution, error) {
	lines := bufio.NewReader(source)
	name := ""
	for {
		line, err := readLine(lines, most)
		if err != nil {
			return nil, err
		}
		if value, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(value)
			continue
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue // a sign of life, or the end of an event
		}
		if x, err := handle(name, data, each); x != nil || err != nil {
			return x, err
		}
	}
}

// readLine reads a line of at most that many bytes.
func readLine(lines *bufio.Reader, most int64) ([]byte, error) {
	var line []byte
	for {
		piece, err := lines.ReadSlice('\n')
		if int64(len(line)+len(piece)) > most {
			return nil, ErrTooLarge
		}
		line = append(line, piece...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: %w", ErrEnded, err)
		}
	}
}

// handle passes one event on; the last one is the record or a problem.
func handle(name string, data []byte, each func(Event) error) (*Execution, error) {
	switch name {
	case "done":
		x := &Execution{}
		if err := json.Unmarshal(data, x); err != nil {
			return nil, fmt.Errorf("the record of the execution cannot be read: %w", err)
		}
		return x, nil
	case "problem":
		var d document
		if err := json.Unmarshal(data, &d); err != nil {
			return nil, fmt.Errorf("the server's problem cannot be read: %w", err)
		}
		return nil, d.problem()
	}
	event, err := eventOf(Kind(name), data)
	if event == nil || err != nil || each == nil {
		return nil, err
	}
	return nil, each(*event)
}

// eventOf decodes an event; nil is one that only a newer client knows.
func eventOf(kind Kind, data []byte) (*Event, error) {
	var e struct {
		ID         string `json:"id"`
		Text       string `json:"text"`
		Base64     []byte `json:"base64"`
		Code       string `json:"code"`
		Name       string `json:"name"`
		Value      string `json:"value"`
		Traceback  string `json:"traceback"`
		Data       Data   `json:"data"`
		Background bool   `json:"background"`
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("event %.40q of the stream cannot be read: %w", kind, err)
	}
	event := &Event{Kind: kind, Background: e.Background}
	switch kind {
	case KindStarted:
		event.ID = e.ID
	case KindStdout, KindStderr:
		event.Text = []byte(e.Text)
		if len(e.Base64) > 0 {
			event.Text = e.Base64
		}
	case KindDisplay, KindResult, KindValue:
		event.Name, event.Data = e.Name, e.Data
	case KindError:
		event.Fault = &Fault{Name: e.Name, Value: e.Value, Traceback: e.Traceback}
	case KindNotice:
		event.Notice = &Notice{Code: e.Code, Text: e.Text}
	default:
		return nil, nil //nolint:nilnil // nothing to tell
	}
	return event, nil
}
