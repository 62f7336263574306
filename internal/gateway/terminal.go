// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"glovebox/internal/engine"
)

// maxTerminalMessage bounds one message of a client of a terminal.
const maxTerminalMessage = 64 << 10

// terminalMessage is a text message, either way. Output and input are binary messages.
type terminalMessage struct {
	// Type is, from the client: resize, signal, close (the end of input); to it: ready, lost, problem, ended.
	Type string `json:"type"`
	// Of a resize.
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
	// Of a signal.
	Signal signal `json:"signal,omitempty"`
	// Offset is that of the first byte that follows a ready or a lost: who comes back with it misses nothing that is kept.
	Offset int64 `json:"offset"`
	// Bytes is how much is lost.
	Bytes   int64           `json:"bytes,omitempty"`
	Problem *problem        `json:"problem,omitempty"`
	Process *engine.Process `json:"process,omitempty"`
}

// attach joins a WebSocket to a process: what it prints from an offset on, and its input. Whoever leaves can come back; the
// process goes on.
func (g *Gateway) attach(w http.ResponseWriter, r *http.Request) {
	offset, err := offsetOf(r)
	if err == nil {
		_, err = g.Engine.ProcessOutput(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process"), offset, false)
	}
	if err != nil {
		g.fail(w, r, err)
		return
	}
	leave := g.seat(w, r, g.followers)
	if leave == nil {
		return
	}
	defer leave()
	// The guard has judged the origin already, and knows names of this server that the library does not.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.CloseNow() }() // closed already is fine
	conn.SetReadLimit(maxTerminalMessage)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	t := &terminal{gateway: g, conn: conn, request: r.WithContext(ctx)}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		cancel(t.read(ctx))
	}()
	go t.ping(ctx, cancel)
	t.write(ctx, offset)
	_ = conn.Close(websocket.StatusNormalClosure, "") // the client may have gone
	cancel(nil)
	<-reading
}

// terminal is one client of a process.
type terminal struct {
	gateway *Gateway
	conn    *websocket.Conn
	request *http.Request
}

func (t *terminal) send(ctx context.Context, kind websocket.MessageType, data []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, writePatience, errors.New("the client does not read"))
	defer cancel()
	return t.conn.Write(ctx, kind, data)
}

func (t *terminal) say(ctx context.Context, message terminalMessage) error {
	encoded, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return t.send(ctx, websocket.MessageText, encoded)
}

// ping finds out that a client is gone.
func (t *terminal) ping(ctx context.Context, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(keepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		bounded, done := context.WithTimeoutCause(ctx, writePatience, errors.New("the client does not answer"))
		err := t.conn.Ping(bounded)
		done()
		if err != nil {
			cancel(err)
			return
		}
	}
}

// write sends the output until the process ends or the client leaves.
func (t *terminal) write(ctx context.Context, offset int64) {
	r, g := t.request, t.gateway
	next := offset
	err := g.eachPiece(r, offset, func() { _ = t.say(ctx, terminalMessage{Type: "ready", Offset: offset}) },
		func(lost int64) error {
			next += lost
			return t.say(ctx, terminalMessage{Type: "lost", Bytes: lost, Offset: next})
		},
		func(piece engine.Piece) error {
			next = piece.Offset + int64(len(piece.Data))
			return t.send(ctx, websocket.MessageBinary, piece.Data)
		})
	if err == nil {
		var process engine.Process
		if process, err = g.Engine.Process(ctx, caller(r).Tenant, sandboxID(r), r.PathValue("process"), 0); err == nil {
			_ = t.say(ctx, terminalMessage{Type: "ended", Offset: next, Process: &process}) // the client may have gone
		}
	}
	if err != nil && ctx.Err() == nil {
		p := problemOf(err)
		_ = t.say(ctx, terminalMessage{Type: "problem", Offset: next, Problem: &p}) // the client may have gone
	}
}

// read carries out what the client sends. Its error ends the connection; what the process refuses is told and does not.
func (t *terminal) read(ctx context.Context) error {
	for {
		kind, data, err := t.conn.Read(ctx)
		if err != nil {
			return err
		}
		if err := t.take(ctx, kind, data); err != nil {
			p := problemOf(err)
			if err := t.say(ctx, terminalMessage{Type: "problem", Problem: &p}); err != nil {
				return err
			}
		}
	}
}

func (t *terminal) take(ctx context.Context, kind websocket.MessageType, data []byte) error {
	r, e := t.request, t.gateway.Engine
	tenant, id, name := caller(r).Tenant, sandboxID(r), r.PathValue("process")
	if kind == websocket.MessageBinary {
		_, err := e.WriteProcess(ctx, tenant, id, name, bytes.NewReader(data), false)
		return err
	}
	var message terminalMessage
	if err := json.Unmarshal(data, &message); err != nil {
		return invalid("a text message is not the JSON object that is expected: %w", err)
	}
	switch message.Type {
	case "resize":
		size := terminalSize{Rows: message.Rows, Cols: message.Cols}
		return e.ResizeProcess(ctx, tenant, id, name, *size.size())
	case "signal":
		return e.SignalProcess(ctx, tenant, id, name, int(message.Signal))
	case "close":
		_, err := e.WriteProcess(ctx, tenant, id, name, http.NoBody, true)
		return err
	default:
		return invalid("a message of type %q is not known: use resize, signal or close, and binary messages for input", clip(message.Type))
	}
}
