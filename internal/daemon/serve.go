// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/gateway"
	"glovebox/internal/metrics"
	"glovebox/internal/usage"
)

// The patience of the HTTP server; the gateway has its own for bodies and answers.
const (
	headerPatience   = 10 * time.Second
	idlePatience     = 2 * time.Minute
	shutdownPatience = 5 * time.Second
	maxHeader        = 32 << 10
)

// SocketPath is where a server with this data folder listens for the command line.
func SocketPath(data string) string { return filepath.Join(data, "glovebox.sock") }

// Serve serves until ctx ends, then drains: what runs may go on for as long as config.Drain says, new work is refused, and
// what is left then is canceled. What a person needs to know first is written to announce.
func Serve(ctx context.Context, c config.Config, options Options, log *slog.Logger, announce io.Writer) (err error) {
	if err := dataFolder(c.Data); err != nil {
		return err
	}
	unlock, err := lockData(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := SweepRuns(c.Data); err != nil {
		return err
	}
	if err := os.RemoveAll(uploads(c)); err != nil { // what a crash left
		return storageProblem(c.Data, err)
	}
	options.Pool, options.Keep = c.Pool.Enabled, true
	s := &server{config: c, log: log, options: options, metrics: metrics.New()}
	s.live.Store(&c)
	defer func() { err = errors.Join(err, s.close()) }() //nolint:contextcheck // ctx has ended by then
	s.account = &usage.Account{Budget: s.budget, Log: log, Now: time.Now}
	options.Account, options.Observer = &s.books, &s.books
	s.books.account, s.books.metrics = s.account, s.metrics
	if s.system, err = Open(c, options, log); err != nil {
		return err
	}
	s.account.Store = s.system.database
	if err := s.system.store.Recover(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx) // a signal while it started
		}
		return storageProblem(c.Data, err)
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	s.system.Reclaim(ctx)
	if err := s.system.refuse(ctx, c); err != nil {
		return err
	}
	if err := s.announce(announce); err != nil {
		return err
	}
	ctx, stop := s.keepHouse(ctx)
	defer stop()
	return errors.Join(s.serve(ctx), reservedCause(ctx))
}

// CheckServe says why a server could not start now: another one uses the data folder, or something listens already.
func CheckServe(ctx context.Context, c config.Config) error {
	if err := dataFolder(c.Data); err != nil {
		return err
	}
	unlock, err := lockData(c.Data)
	if err != nil {
		return err
	}
	listener, err := listenTCP(ctx, c.Addr)
	if err == nil {
		err = listener.Close()
	}
	return errors.Join(err, unlock())
}

func uploads(c config.Config) string { return filepath.Join(c.Data, "uploads") }

// server is a System with its listeners.
type server struct {
	config  config.Config
	system  *System
	log     *slog.Logger
	token   string
	isNew   bool
	account *usage.Account
	metrics *metrics.Metrics
	books   books
	// live is the configuration whose changeable settings are in force.
	live     atomic.Pointer[config.Config]
	gateways []*gateway.Gateway
	options  Options
	tcp      net.Listener
	unix     net.Listener
	drain    time.Duration
}

func (s *server) listen(ctx context.Context) (err error) {
	if s.token, s.isNew, err = token(s.config); err != nil {
		return err
	}
	if s.tcp, err = listenTCP(ctx, s.config.Addr); err != nil {
		return err
	}
	s.unix, err = listenSocket(SocketPath(s.config.Data))
	return err
}

func listenTCP(ctx context.Context, address string) (net.Listener, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, &engine.Problem{Code: engine.CodeInternal, Err: err, Text: fmt.Sprintf(
			"cannot listen on %s: %v; choose another address with --addr, or end what listens there", address, err)}
	}
	return listener, nil
}

// announce says where the server is. The token is shown once, when it was made.
func (s *server) announce(w io.Writer) error {
	text := fmt.Sprintf("glovebox listens on http://%s\n", s.tcp.Addr())
	switch {
	case s.config.Token != "":
		text += "token: the configured one\n"
	case s.isNew:
		text += fmt.Sprintf("token: %s\n(shown this once; it is kept in %s)\n", s.token, tokenPath(s.config.Data))
	default:
		text += fmt.Sprintf("token: in %s\n", tokenPath(s.config.Data))
	}
	_, err := io.WriteString(w, text)
	return err
}

// handler makes the gateway for one listener.
func (s *server) handler(authenticator gateway.Authenticator) (http.Handler, error) {
	c := s.config
	g, err := gateway.New(gateway.Config{
		Engine: s.system.Engine, Authenticator: authenticator, Hosts: hosts(c), Uploads: uploads(c), MaxJSON: int64(c.Uploads.JSON),
		MaxFile: int64(c.Uploads.File), MaxRequest: int64(c.Uploads.Request), MaxPosts: c.MaxRunning + c.MaxQueued,
		MaxPostsEach: c.MaxRunning + min(c.MaxQueued, c.MaxQueuedEach), PerMinute: s.perMinute, Ready: s.ready, Usage: s.account.Report,
		Metrics: s.metrics.Handler(), Observe: s.metrics.Request, Answers: s.system.database, Log: s.log,
	})
	if err == nil {
		s.gateways = append(s.gateways, g)
	}
	return g, err
}

// hosts are the names under which the server may be reached.
func hosts(c config.Config) []string {
	names := slices.Clone(c.Hosts)
	if host, _, err := net.SplitHostPort(c.Addr); err == nil && net.ParseIP(host) != nil && !net.ParseIP(host).IsUnspecified() {
		names = append(names, host)
	}
	return names
}

func (s *server) serve(ctx context.Context) error {
	if err := errors.Join(s.watch(), s.change(s.config)); err != nil {
		return err
	}
	forAll, err := s.handler(&auth.Authenticator{Keys: s.system.database, Token: s.token, Now: time.Now, Log: s.log})
	if err != nil {
		return err
	}
	forOwner, err := s.handler(nil)
	if err != nil {
		return err
	}
	servers := []*http.Server{s.http(forAll), s.http(s.ownerOnly(forOwner))}
	servers[1].ConnContext = withPeer
	defer s.follow(ctx)()

	s.books.open.Store(true)
	ended := make(chan error, len(servers))
	for i, listener := range []net.Listener{s.tcp, s.unix} {
		go func() { ended <- servers[i].Serve(listener) }()
	}
	select {
	case <-ctx.Done():
		s.log.InfoContext(ctx, "draining", "patience", time.Duration(s.config.Drain).String())
		s.drain = time.Duration(s.config.Drain)
	case err = <-ended:
		err = fmt.Errorf("serve: %w", err)
		ended <- nil
	}
	s.finish(servers) //nolint:contextcheck // ctx has ended by now
	for range servers {
		if one := <-ended; one != nil && !errors.Is(one, http.ErrServerClosed) {
			err = errors.Join(err, one)
		}
	}
	return err
}

// finish lets what runs go on for a while, ends it, and closes every connection.
func (s *server) finish(servers []*http.Server) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.drain, engine.ErrShutdown)
	defer cancel()
	defer s.hurried(cancel)()
	s.system.Engine.Close(ctx)
	if ctx.Err() != nil {
		s.log.Warn("what still ran when the drain ended was canceled")
	}
	ctx, cancelShutdown := context.WithTimeoutCause(context.Background(), shutdownPatience, engine.ErrShutdown)
	defer cancelShutdown()
	for _, server := range servers {
		if err := server.Shutdown(ctx); err != nil {
			s.log.Warn("closing connections by force", "error", err)
			_ = server.Close() // nothing more can be done
		}
	}
}

// hurried calls end when the operator does not want to wait for the drain.
func (s *server) hurried(end func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-s.options.Hurry: // nil waits for ever
			s.log.Warn("a second signal ends the drain")
			end()
		case <-done:
		}
	}()
	return func() { close(done) }
}

func (s *server) http(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

func (s *server) close() error {
	var errs []error
	for _, listener := range []net.Listener{s.tcp, s.unix} {
		if listener != nil {
			if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if s.unix != nil {
		errs = append(errs, os.Remove(SocketPath(s.config.Data)))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(engine.ErrShutdown)
	if s.system != nil {
		errs = append(errs, s.system.Close(ctx))
	}
	return errors.Join(errs...)
}
