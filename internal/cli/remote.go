// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"glovebox/client"
	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// remote runs executions in a server: the one that uses the same data folder, over its socket, or any by its URL.
type remote struct {
	client *client.Client
	// without says what to do where the server fails.
	without string
}

// dialServer returns nil when no server answers on the socket: then the command does the work itself.
func dialServer(ctx context.Context, c config.Config, waiting func(error, time.Duration)) *remote {
	const patience = 2 * time.Second
	path := daemon.SocketPath(c.Data)
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "unix", path)
	if err != nil || conn.Close() != nil {
		return nil
	}
	made, err := client.New(client.Options{Socket: path, Waiting: waiting})
	if err != nil {
		return nil
	}
	return &remote{client: made, without: "its log may say more, and --no-server does without it"}
}

func (r *remote) close() error {
	r.client.Close()
	return nil
}

// run sends the request and follows the events.
func (r *remote) run(ctx context.Context, request engine.Request, sink engine.Sink) (*engine.Execution, error) {
	return r.follow(ctx, sink, nil, func(ctx context.Context, each func(client.Event) error) (*client.Execution, error) {
		return r.client.Stream(ctx, requestOf(request), each)
	})
}

// artifact downloads a file.
func (r *remote) artifact(ctx context.Context, id sandbox.ID, name string) (io.ReadCloser, error) {
	content, err := r.client.Artifact(ctx, string(id), name)
	return content, r.told(err)
}

// stream asks for an execution and hands its events on.
type stream func(ctx context.Context, each func(client.Event) error) (*client.Execution, error)

// follow takes an execution to its end. Whoever interrupts a command gets the same as without a server: the record of a run
// that was canceled. Where end is given it is asked to end the execution first, and the stream goes on to its own end.
func (r *remote) follow(ctx context.Context, sink engine.Sink, end func(ctx context.Context, id string) error, ask stream) (*engine.Execution, error) {
	id, known := "", make(chan struct{})
	asked, leave := leaving(ctx, known, func(ctx context.Context) error {
		if end == nil {
			return errLeave
		}
		return end(ctx, id)
	})
	defer leave()
	x, err := ask(asked, func(e client.Event) error {
		if e.Kind == client.KindStarted && id == "" {
			id = e.ID
			close(known)
			return nil
		}
		event, ok := eventOf(e)
		if !ok {
			return nil // of a newer server
		}
		return sink.Event(ctx, event)
	})
	switch {
	case err == nil:
		return record(x)
	case ctx.Err() == nil:
		return nil, r.told(err)
	case id == "":
		cause := context.Cause(ctx)
		return nil, &engine.Problem{Code: engine.CodeCanceled, Err: cause, Text: cause.Error() + " before anything was run"}
	}
	return r.canceled(ctx, id)
}

// errLeave says that nothing else ends an execution than leaving it.
var errLeave = errors.New("leave it")

// endPatience is how long a server may take to end an execution.
const endPatience = 10 * time.Second

// leaving returns a context that ends a little after ctx: in that time the server may tell the id of a run that has just
// begun, without which nobody can ask what became of it. Where end succeeds, what it ended may come to its end.
func leaving(ctx context.Context, known <-chan struct{}, end func(context.Context) error) (context.Context, context.CancelFunc) {
	const patience = time.Second
	asked, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer cancel(context.Cause(ctx))
		select {
		case <-known:
		case <-time.After(patience):
			return
		case <-asked.Done():
			return
		}
		ending, done := context.WithTimeoutCause(asked, endPatience, errLeave)
		defer done()
		if end(ending) == nil {
			<-ending.Done() // the stream's end
		}
	})
	return asked, func() { stop(); cancel(nil) }
}

// canceled waits for the record of a run that was left, by which the server cancels it.
func (r *remote) canceled(ctx context.Context, id string) (*engine.Execution, error) {
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), endPatience, errors.New("the server did not end it in time"))
	defer cancel()
	x, err := r.client.Wait(ctx, id)
	if err != nil {
		return nil, &engine.Problem{Code: engine.CodeCanceled, Err: cause, Text: fmt.Sprintf(
			"%v; the run was left and the server was asked to cancel it, but what became of it is not known: %v", cause, err)}
	}
	return record(x)
}

// told makes an error of the client one of this program, with an exit code.
func (r *remote) told(err error) error {
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*exitError](err); ours {
		return err
	}
	known, ok := errors.AsType[*client.Problem](err)
	if !ok {
		if errors.Is(err, client.ErrEnded) || errors.Is(err, client.ErrTooLarge) {
			return fmt.Errorf("the server's answer ended early: %w; %s", err, r.without)
		}
		return fmt.Errorf("%w; %s", err, r.without)
	}
	problem := &engine.Problem{Code: engine.Code(known.Code), Text: known.Detail, Faults: known.Faults, Err: err}
	switch {
	case known.Status == http.StatusUnauthorized || known.Status == http.StatusForbidden:
		return &exitError{Code: engine.ExitUsage, Err: problem}
	case known.Code == "":
		problem.Code = engine.CodeInternal
	}
	return problem
}

// record is the client's record as the engine's: the two are one object.
func record(x *client.Execution) (*engine.Execution, error) {
	encoded, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("the record of the execution cannot be used: %w", err)
	}
	ours := &engine.Execution{}
	if err := json.Unmarshal(encoded, ours); err != nil {
		return nil, fmt.Errorf("the record of the execution cannot be used: %w", err)
	}
	return ours, nil
}

func requestOf(q engine.Request) client.Request {
	request := client.Request{
		Code: q.Code, Name: q.Name, Language: q.Language, Policy: q.Policy, Limits: client.Limits(q.Limits), Image: q.Image,
		Backend: q.Backend, Env: q.Env, Inputs: q.Inputs, Return: q.Return, Fresh: q.Fresh,
	}
	for _, file := range q.Files {
		request.Files = append(request.Files, client.File(file))
	}
	return request
}

// eventOf is the client's event as the engine's.
func eventOf(e client.Event) (sandbox.Event, bool) {
	event := sandbox.Event{Kind: sandbox.EventKind(e.Kind), Text: e.Text, Name: e.Name, Background: e.Background}
	switch e.Kind {
	case client.KindStdout, client.KindStderr:
	case client.KindDisplay, client.KindResult, client.KindValue:
		event.Bundle = &sandbox.Bundle{Data: e.Data}
	case client.KindError:
		event.Fault = (*sandbox.Fault)(e.Fault)
	case client.KindNotice:
		event.Notice = (*sandbox.Notice)(e.Notice)
	default:
		return event, false
	}
	return event, true
}
