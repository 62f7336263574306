// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

func (g *Gateway) postExecution(w http.ResponseWriter, r *http.Request) {
	asked, err := g.decode(w, r)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	if err := asked.from.unheld(); err != nil {
		if asked.Release != nil {
			asked.Release()
		}
		g.fail(w, r, err)
		return
	}
	asked.MustHaveCode = true
	asked.owned(r)
	if asked.detach {
		g.detach(w, r, asked.Request)
		return
	}
	run := func(ctx context.Context, sink engine.Sink, begun func(sandbox.ID)) (*engine.Execution, error) {
		return g.Engine.Follow(ctx, asked.Request, sink, begun)
	}
	g.follow(w, r, asked.stay, run) //nolint:contextcheck // the run may outlive the request
}

// follow carries an execution out; the sink may be nil.
type follow func(ctx context.Context, sink engine.Sink, begun func(sandbox.ID)) (*engine.Execution, error)

// follow answers with an execution, as a stream if the client wants one.
func (g *Gateway) follow(w http.ResponseWriter, r *http.Request, stay bool, run follow) {
	if wantsEvents(r) {
		g.stream(w, r, stay, run)
		return
	}
	g.answer(w, r, stay, run)
}

func wantsEvents(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			if kind, _, err := mime.ParseMediaType(part); err == nil && kind == "text/event-stream" {
				return true
			}
		}
	}
	return false
}

// detach starts an execution that is asked for later.
func (g *Gateway) detach(w http.ResponseWriter, r *http.Request, request engine.Request) {
	id, err := g.Engine.Start(request)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	x, err := g.Engine.Get(request.Who.Tenant, id)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/executions/"+string(id))
	g.json(w, http.StatusAccepted, x)
}

// clientContext ends when the client leaves, unless the request says that this does not matter.
func clientContext(r *http.Request, stay bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	if stay {
		return ctx, func() { cancel(nil) }
	}
	stop := context.AfterFunc(r.Context(), func() { cancel(engine.ErrLeft) })
	return ctx, func() { stop(); cancel(nil) }
}

// answer runs an execution and answers when it is over.
func (g *Gateway) answer(w http.ResponseWriter, r *http.Request, stay bool, run follow) {
	ctx, cancel := clientContext(r, stay)
	defer cancel()
	x, err := run(ctx, nil, func(sandbox.ID) {})
	switch {
	case err != nil && ctx.Err() != nil:
		panic(http.ErrAbortHandler) // the client is gone
	case err != nil:
		g.fail(w, r, err)
	case x.Status.End() == sandbox.EndInfra:
		g.problem(w, problem{Status: http.StatusInternalServerError, Code: "infra", Detail: x.Message, Execution: x})
	default:
		w.Header().Set("Location", "/v1/executions/"+string(x.ID))
		g.json(w, http.StatusOK, x)
	}
}

func (g *Gateway) getExecution(w http.ResponseWriter, r *http.Request) {
	x, err := g.Engine.Get(caller(r).Tenant, sandbox.ID(r.PathValue("id")))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, x)
}

func (g *Gateway) deleteExecution(w http.ResponseWriter, r *http.Request) {
	if err := g.Engine.Delete(r.Context(), caller(r), sandbox.ID(r.PathValue("id"))); err != nil {
		g.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (g *Gateway) getOutput(w http.ResponseWriter, r *http.Request) {
	stream := r.URL.Query().Get("stream")
	if stream == "" {
		stream = "stdout"
	}
	file, err := g.Engine.OpenOutput(caller(r).Tenant, sandbox.ID(r.PathValue("id")), stream)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.serveFile(w, r, file, stream+".txt", "text/plain; charset=utf-8")
}

type artifactList struct {
	Artifacts []artifact.Artifact `json:"artifacts"`
}

// getArtifacts lists the files that an execution left.
func (g *Gateway) getArtifacts(w http.ResponseWriter, r *http.Request) {
	x, err := g.Engine.Get(caller(r).Tenant, sandbox.ID(r.PathValue("id")))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.json(w, http.StatusOK, artifactList{x.Artifacts})
}

func (g *Gateway) getArtifact(w http.ResponseWriter, r *http.Request) {
	file, a, err := g.Engine.OpenArtifact(caller(r).Tenant, sandbox.ID(r.PathValue("id")), r.PathValue("name"))
	if err != nil {
		g.fail(w, r, err)
		return
	}
	w.Header().Set("ETag", `"`+a.SHA256+`"`)
	g.serveFile(w, r, file, a.Name, a.MIME)
}

// serveFile sends a file as a download, in ranges if asked, and closes it.
func (g *Gateway) serveFile(w http.ResponseWriter, r *http.Request, file io.ReadSeekCloser, name, kind string) {
	defer file.Close()
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", artifact.ContentDisposition(name))
	http.ServeContent(&patientWriter{ResponseWriter: w, gateway: g}, r, "", time.Time{}, file)
}

// patientWriter gives the client its time for each piece.
type patientWriter struct {
	http.ResponseWriter
	gateway *Gateway
}

func (p *patientWriter) Write(b []byte) (int, error) {
	p.gateway.allowWrite(p.ResponseWriter)
	return p.ResponseWriter.Write(b)
}
