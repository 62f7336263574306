// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/engine"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// maxWait bounds how long a request may wait for the end of a process.
const maxWait = time.Minute

// processRequest is the body of POST /v1/sandboxes/{id}/processes.
type processRequest struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Dir     string            `json:"dir"`
	Env     map[string]string `json:"env"`
	// Wall is how long it may run; without it, as long as the sandbox.
	Wall *seconds `json:"wall"`
	// Stdin keeps its standard input open.
	Stdin bool `json:"stdin"`
	// Terminal gives it a terminal, with its input open.
	Terminal *terminalSize `json:"terminal"`
}

type terminalSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

func (t *terminalSize) size() *sandbox.TerminalSize {
	if t == nil {
		return nil
	}
	return &sandbox.TerminalSize{Rows: t.Rows, Columns: t.Cols}
}

type processList struct {
	Processes []engine.Process `json:"processes"`
}

// signalRequest is the body of POST .../signal.
type signalRequest struct {
	Signal signal `json:"signal"`
}

type stdinAnswer struct {
	Bytes int64 `json:"bytes"`
}

// signal is a number, or a name as TERM or SIGTERM.
type signal int

// UnmarshalJSON reads a number or a name.
func (s *signal) UnmarshalJSON(data []byte) error {
	text, err := scalar(data)
	if err != nil {
		return err
	}
	if number, err := strconv.Atoi(text); err == nil {
		*s = signal(number)
		return nil
	}
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	number := unix.SignalNum(name)
	if number == 0 {
		return fmt.Errorf("signal %q is not known", clip(text))
	}
	*s = signal(number)
	return nil
}

func (g *Gateway) postProcess(w http.ResponseWriter, r *http.Request) {
	var q processRequest
	if err := g.decodeBody(w, r, &q); err != nil {
		g.fail(w, r, err)
		return
	}
	spec := engine.ProcessSpec{Args: append([]string{q.Command}, q.Args...), Dir: q.Dir, Env: q.Env, Stdin: q.Stdin, Terminal: q.Terminal.size()}
	if q.Wall != nil {
		spec.Wall = max(time.Duration(*q.Wall), 1) // zero is too short, and no default
	}
	process, err := g.Engine.StartProcess(r.Context(), caller(r).Tenant, sandboxID(r), spec)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/sandboxes/"+string(sandboxID(r))+"/processes/"+process.ID)
	g.json(w, http.StatusCreated, process)
}

func (g *Gateway) listProcesses(w http.ResponseWriter, r *http.Request) {
	processes, err := g.Engine.ProcessesIn(caller(r).Tenant, sandboxID(r))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, processList{processes})
}

// getProcess describes a process; ?wait=SECONDS waits for its end, that long at most.
func (g *Gateway) getProcess(w http.ResponseWriter, r *http.Request) {
	var wait time.Duration
	if text := r.URL.Query().Get("wait"); text != "" {
		var err error
		if wait, err = policy.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			g.fail(w, r, invalid("wait is %q: 0 to %v are allowed", clip(text), maxWait))
			return
		}
		leave := g.seat(w, r, g.followers)
		if leave == nil {
			return
		}
		defer leave()
	}
	process, err := g.Engine.Process(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process"), wait)
	if err != nil {
		g.failOrLeave(w, r, err)
		return
	}
	g.json(w, http.StatusOK, process)
}

// failOrLeave is fail for who may have gone meanwhile.
func (g *Gateway) failOrLeave(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	g.fail(w, r, err)
}

// offsetOf is the parameter offset; without it all that is kept is meant.
func offsetOf(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("offset")
	if text == "" {
		return 0, nil
	}
	offset, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, invalid("offset is %q: a number of bytes is meant", clip(text))
	}
	return offset, nil
}

// The headers that say which part of the output an answer has, and where to go on.
const (
	headerFrom = "Glovebox-Output-From"
	headerNext = "Glovebox-Output-Next"
)

// processOutput sends what a process printed from an offset on: the bytes that there are, or as events until its end.
func (g *Gateway) processOutput(w http.ResponseWriter, r *http.Request) {
	offset, err := offsetOf(r)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	if wantsEvents(r) {
		g.followProcess(w, r, offset)
		return
	}
	out, err := g.Engine.ProcessOutput(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process"), offset, false)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Length", strconv.FormatInt(out.Next-out.From, 10))
	header.Set(headerFrom, strconv.FormatInt(out.From, 10))
	header.Set(headerNext, strconv.FormatInt(out.Next, 10))
	for _, piece := range out.Pieces {
		g.allowWrite(w)
		if _, err := w.Write(piece.Data); err != nil {
			return // the client has gone
		}
	}
}

// outputEvent is some output of a process. Offset is that of its first byte.
type outputEvent struct {
	Offset int64  `json:"offset"`
	Base64 []byte `json:"base64"`
}

// lostEvent tells of output that is not kept any more.
type lostEvent struct {
	Bytes int64 `json:"bytes"`
}

func (g *Gateway) followProcess(w http.ResponseWriter, r *http.Request, offset int64) {
	leave := g.seat(w, r, g.followers)
	if leave == nil {
		return
	}
	defer leave()
	s := &eventStream{gateway: g, w: w}
	err := g.eachPiece(r, offset, func() { s.open("ready", struct{}{}) }, func(lost int64) error {
		return s.send("lost", lostEvent{lost})
	}, func(piece engine.Piece) error {
		return s.send(piece.Stream, outputEvent{Offset: piece.Offset, Base64: piece.Data})
	})
	if !s.stopKeepAlive() {
		g.failOrLeave(w, r, err)
		return
	}
	if err == nil {
		var process engine.Process
		if process, err = g.Engine.Process(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process"), 0); err == nil {
			_ = s.send(eventDone, process) // the client may have gone
		}
	}
	if err != nil && r.Context().Err() == nil {
		_ = s.send(eventProblem, problemOf(err)) // the client may have gone
	}
}

// eachPiece tells all output from an offset on, until the process ends. begin is called when there is such a process.
func (g *Gateway) eachPiece(r *http.Request, offset int64, begin func(), lost func(int64) error, tell func(engine.Piece) error) error {
	for wait := false; ; wait = true {
		out, err := g.Engine.ProcessOutput(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process"), offset, wait)
		if err != nil {
			return err
		}
		if !wait {
			begin()
		}
		if out.From > offset {
			if err := lost(out.From - offset); err != nil {
				return err
			}
		}
		for _, piece := range out.Pieces {
			if err := tell(piece); err != nil {
				return err
			}
		}
		if offset = out.Next; out.Over {
			return nil
		}
	}
}

// postStdin streams the body to a process, as fast as it reads; ?close ends its input with it.
func (g *Gateway) postStdin(w http.ResponseWriter, r *http.Request) {
	leave := g.seat(w, r, g.transfers)
	if leave == nil {
		return
	}
	defer leave()
	body := newUpload(w, r)
	_, last := r.URL.Query()["close"]
	n, err := g.Engine.WriteProcess(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process"), body, last)
	_ = body.control.SetReadDeadline(time.Time{}) // not supported by test recorders
	if err != nil {
		if known := problemOf(err); n > 0 && known.Status < http.StatusInternalServerError {
			known.Detail = fmt.Sprintf("%s (%d bytes were taken)", known.Detail, n)
			g.problem(w, known)
			return
		}
		g.failOrLeave(w, r, err)
		return
	}
	g.json(w, http.StatusOK, stdinAnswer{Bytes: n})
}

func (g *Gateway) postSignal(w http.ResponseWriter, r *http.Request) {
	var q signalRequest
	err := g.decodeBody(w, r, &q)
	if err == nil {
		err = g.Engine.SignalProcess(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process"), int(q.Signal))
	}
	g.done(w, r, err)
}

func (g *Gateway) postResize(w http.ResponseWriter, r *http.Request) {
	var q terminalSize
	err := g.decodeBody(w, r, &q)
	if err == nil {
		err = g.Engine.ResizeProcess(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process"), *q.size())
	}
	g.done(w, r, err)
}

func (g *Gateway) deleteProcess(w http.ResponseWriter, r *http.Request) {
	g.done(w, r, g.Engine.RemoveProcess(r.Context(), caller(r).Tenant, sandboxID(r), r.PathValue("process")))
}

var _ json.Unmarshaler = (*signal)(nil)
