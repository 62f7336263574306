// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// Engine is what the gateway needs of the engine.
type Engine interface {
	Follow(ctx context.Context, request engine.Request, sink engine.Sink, begun func(sandbox.ID)) (*engine.Execution, error)
	Start(request engine.Request) (sandbox.ID, error)
	Get(id sandbox.ID) (*engine.Execution, error)
	Delete(ctx context.Context, id sandbox.ID) error
	OpenArtifact(id sandbox.ID, name string) (*os.File, artifact.Artifact, error)
	OpenOutput(id sandbox.ID, stream string) (*os.File, error)

	Hold(ctx context.Context, request engine.Request) (engine.Held, error)
	Held(id sandbox.ID) (engine.Held, error)
	Release(id sandbox.ID) error
	ForkHeld(ctx context.Context, id sandbox.ID, session string, count int) ([]string, error)
	ExecuteIn(ctx context.Context, id sandbox.ID, session string, request engine.Request, sink engine.Sink, begun func(sandbox.ID)) (*engine.Execution, error)
}

// Config is what a Gateway needs.
type Config struct {
	Engine Engine
	// Token is asked of every caller but /healthz; it is empty only where the listener knows its callers.
	Token string
	// Hosts are the names under which the server may be reached, besides those of loopback.
	Hosts []string
	// Uploads is the folder for uploaded files while they are needed.
	Uploads string
	// MaxJSON bounds a JSON body, MaxFile one uploaded file, MaxRequest a whole upload.
	MaxJSON, MaxFile, MaxRequest int64
	// MaxPosts bounds how many executions are being asked for at once.
	MaxPosts int
	Log      *slog.Logger
}

// The patience with clients.
const (
	readPatience  = 15 * time.Minute // for a whole upload
	writePatience = time.Minute      // for each piece of an answer
	keepAlive     = 15 * time.Second // between signs of life of a stream
	retryAfter    = "2"              // seconds
)

// Gateway is an http.Handler.
type Gateway struct {
	Config
	posts   chan struct{}
	handler http.Handler
}

// New returns a Gateway.
func New(config Config) (*Gateway, error) {
	if config.Engine == nil || config.Log == nil || config.Uploads == "" {
		return nil, errors.New("gateway: Engine, Log and Uploads are required")
	}
	if config.MaxJSON <= 0 || config.MaxFile <= 0 || config.MaxRequest <= 0 || config.MaxPosts <= 0 {
		return nil, errors.New("gateway: every limit must be above zero")
	}
	g := &Gateway{Config: config, posts: make(chan struct{}, config.MaxPosts)}
	g.handler = g.recovering(g.guarded(g.routes()))
	return g, nil
}

// ServeHTTP answers a request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

func (g *Gateway) routes() http.Handler {
	mux := http.NewServeMux()
	for _, route := range []struct {
		path    string
		methods map[string]http.HandlerFunc
	}{
		{"/healthz", map[string]http.HandlerFunc{"GET": g.health}},
		{"/v1/executions", map[string]http.HandlerFunc{"POST": g.postExecution}},
		{"/v1/executions/{id}", map[string]http.HandlerFunc{"GET": g.getExecution, "DELETE": g.deleteExecution}},
		{"/v1/sandboxes", map[string]http.HandlerFunc{"POST": g.postSandbox}},
		{"/v1/sandboxes/{id}", map[string]http.HandlerFunc{"GET": g.getSandbox, "DELETE": g.deleteSandbox}},
		{"/v1/sandboxes/{id}/execute", map[string]http.HandlerFunc{"POST": g.postCell}},
		{"/v1/sandboxes/{id}/fork", map[string]http.HandlerFunc{"POST": g.postFork}},
		{"/v1/executions/{id}/output", map[string]http.HandlerFunc{"GET": g.getOutput}},
		{"/v1/executions/{id}/artifacts/{name...}", map[string]http.HandlerFunc{"GET": g.getArtifact}},
	} {
		var allowed []string
		for method, handler := range route.methods {
			mux.HandleFunc(method+" "+route.path, handler)
			allowed = append(allowed, method)
		}
		mux.HandleFunc(route.path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			g.problem(w, problem{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Detail: "use " + strings.Join(allowed, " or ")})
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		g.problem(w, problem{Status: http.StatusNotFound, Code: engine.CodeNotFound, Detail: "there is nothing at this path"})
	})
	return mux
}

func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	g.json(w, http.StatusOK, map[string]string{"status": "ok"})
}

// json answers with an object.
func (g *Gateway) json(w http.ResponseWriter, status int, value any) {
	g.encode(w, status, "application/json", value)
}

func (g *Gateway) encode(w http.ResponseWriter, status int, kind string, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		g.Log.Error("encoding an answer failed", "error", err)
		http.Error(w, `{"code":"internal"}`, http.StatusInternalServerError)
		return
	}
	g.allowWrite(w)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone: nobody is left to tell
}

// allowWrite gives the client its time for the next piece.
func (g *Gateway) allowWrite(w http.ResponseWriter) {
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writePatience))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		g.Log.Debug("setting a write deadline failed", "error", err)
	}
}
