// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
	"glovebox/internal/store"
	"glovebox/internal/usage"
)

// Engine is what the gateway needs of the engine.
type Engine interface {
	Follow(ctx context.Context, request engine.Request, sink engine.Sink, begun func(sandbox.ID)) (*engine.Execution, error)
	Start(request engine.Request) (sandbox.ID, error)
	Get(tenant string, id sandbox.ID) (*engine.Execution, error)
	OpenArtifact(tenant string, id sandbox.ID, name string) (store.File, artifact.Artifact, error)
	OpenOutput(tenant string, id sandbox.ID, stream string) (store.File, error)
	Keeper

	Sandboxes
}

// Sandboxes is what the gateway needs for sandboxes that live between executions.
type Sandboxes interface {
	Hold(ctx context.Context, request engine.Request) (engine.Held, error)
	ListHeld(tenant string, filter engine.HeldFilter) (found []engine.Held, next string, err error)
	UpdateHeld(ctx context.Context, tenant string, id sandbox.ID, change engine.HeldChange) (engine.Held, error)
	Held(tenant string, id sandbox.ID) (engine.Held, error)
	Release(tenant string, id sandbox.ID) error
	ForkHeld(ctx context.Context, tenant string, id sandbox.ID, session string, count int) ([]string, error)

	OpenSession(ctx context.Context, tenant string, id sandbox.ID, spec engine.SessionSpec) (engine.Session, error)
	SessionsIn(tenant string, id sandbox.ID) ([]engine.Session, error)
	InterruptSession(ctx context.Context, tenant string, id sandbox.ID, name string) error
	RestartSession(ctx context.Context, tenant string, id sandbox.ID, name string) (engine.Session, error)
	CloseSession(ctx context.Context, tenant string, id sandbox.ID, name string) error

	FilesIn(tenant string, id sandbox.ID) (*engine.Files, error)

	StartProcess(ctx context.Context, tenant string, id sandbox.ID, spec engine.ProcessSpec) (engine.Process, error)
	ProcessesIn(tenant string, id sandbox.ID) ([]engine.Process, error)
	Process(ctx context.Context, tenant string, id sandbox.ID, name string, wait time.Duration) (engine.Process, error)
	ProcessOutput(ctx context.Context, tenant string, id sandbox.ID, name string, offset int64, wait bool) (engine.Printed, error)
	WriteProcess(ctx context.Context, tenant string, id sandbox.ID, name string, input io.Reader, last bool) (int64, error)
	SignalProcess(ctx context.Context, tenant string, id sandbox.ID, name string, signal int) error
	ResizeProcess(ctx context.Context, tenant string, id sandbox.ID, name string, size sandbox.TerminalSize) error
	RemoveProcess(ctx context.Context, tenant string, id sandbox.ID, name string) error

	ExecuteIn(ctx context.Context, id sandbox.ID, session string, request engine.Request, sink engine.Sink, begun func(sandbox.ID)) (*engine.Execution, error)
}

// Authenticator finds the principal of a token, or says why there is none.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (*auth.Principal, error)
}

// Config is what a Gateway needs.
type Config struct {
	Engine Engine
	// Authenticator finds who a token stands for; it is nil only where the listener knows its callers: they are the
	// operator.
	Authenticator Authenticator
	// Hosts are the names under which the server may be reached, besides those of loopback.
	Hosts []string
	// Uploads is the folder for uploaded files while they are needed.
	Uploads string
	// MaxJSON bounds a JSON body, MaxFile one uploaded file, MaxRequest a whole upload.
	MaxJSON, MaxFile, MaxRequest int64
	// MaxPosts bounds how many requests that start something are carried out at once.
	MaxPosts int
	// MaxPostsEach is the same for each tenant; zero is MaxPosts.
	MaxPostsEach int
	// PerMinute is how many requests that start something a key of a tenant may send a minute, where the key says nothing;
	// nil or zero is DefaultPerMinute.
	PerMinute func(tenant string) int
	// Ready checks what must be well to take new work, by name; nil is always ready.
	Ready func(context.Context) map[string]error
	// Usage reports what a tenant used; nil is nothing.
	Usage func(ctx context.Context, tenant string, from, to time.Time) (usage.Report, error)
	// Metrics answers who asks for metrics; nil is nobody. Observe is told of every answer, with the route's pattern.
	Metrics http.Handler
	Observe func(method, route string, status int, took time.Duration)
	// Answers keeps those to requests with an Idempotency-Key; without it such a key is refused.
	Answers Answers
	Log     *slog.Logger
}

// The patience with clients.
const (
	readPatience  = 15 * time.Minute // for a whole upload
	writePatience = time.Minute      // for each piece of an answer
	keepAlive     = 15 * time.Second // between signs of life of a stream
	retryAfter    = "2"              // seconds

	// maxTransfers bounds the files that are on their way at once, and maxFollowers those who follow a sandbox: its output,
	// its files, a terminal.
	maxTransfers = 64
	maxFollowers = 256
)

// Gateway is an http.Handler.
type Gateway struct {
	Config
	posts     *budget // requests that start something
	bodies    *budget // bytes of bodies in memory
	uploads   *budget // bytes of uploads on disk
	rates     *auth.Rates
	readiness readiness
	hosts     atomic.Pointer[[]string]
	transfers *budget // files that are on their way
	followers *budget // requests that follow a sandbox

	handler, mux http.Handler
	// document is the description of the table, and page the readable form of it.
	document, page []byte
}

// New returns a Gateway.
func New(config Config) (*Gateway, error) {
	if config.Engine == nil || config.Log == nil || config.Uploads == "" {
		return nil, errors.New("gateway: Engine, Log and Uploads are required")
	}
	if config.MaxJSON <= 0 || config.MaxFile <= 0 || config.MaxRequest <= 0 || config.MaxPosts <= 0 {
		return nil, errors.New("gateway: every limit must be above zero")
	}
	if config.MaxPostsEach == 0 {
		config.MaxPostsEach = config.MaxPosts
	}
	g := &Gateway{
		Config: config, rates: auth.NewRates(time.Now),
		posts:   newBudget("requests are being carried out", int64(config.MaxPosts), int64(config.MaxPostsEach)),
		bodies:  newBudget("large requests are being read", bodiesAtOnce*config.MaxJSON, bodiesAtOnce/2*config.MaxJSON),
		uploads: newBudget("uploads are under way", uploadsAtOnce*config.MaxRequest, uploadsAtOnce/2*config.MaxRequest),
	}
	// One tenant may have half of either: who reads slowly leaves room for others.
	g.transfers = newBudget("files are on their way", maxTransfers, maxTransfers/2)
	g.followers = newBudget("requests follow a sandbox", maxFollowers, maxFollowers/2)
	if err := g.describe(); err != nil {
		return nil, err
	}
	g.SetHosts(config.Hosts)
	g.mux = g.routes()
	g.handler = g.measured(g.recovering(g.guarded(g.mux)))
	return g, nil
}

// SetHosts changes the names under which the server may be reached.
func (g *Gateway) SetHosts(hosts []string) { g.hosts.Store(&hosts) }

// ServeHTTP answers a request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

func (g *Gateway) routes() http.Handler {
	mux := http.NewServeMux()
	allowed := make(map[string][]string)
	for _, route := range g.table() {
		mux.Handle(route.method+" "+route.path, g.admitted(route))
		allowed[route.path] = append(allowed[route.path], route.method)
	}
	for path, methods := range allowed {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			g.problem(w, problem{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Detail: "use " + strings.Join(methods, " or ")})
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		g.problem(w, problem{Status: http.StatusNotFound, Code: engine.CodeNotFound, Detail: "there is nothing at this path"})
	})
	return mux
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
