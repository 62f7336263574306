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
	"time"

	"glovebox/internal/auth"
	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/gateway"
	"glovebox/internal/store"
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
	options.Pool = c.Pool.Enabled
	system, err := Open(c, options, log)
	if err != nil {
		return err
	}
	s := &server{config: c, system: system, log: log, hurry: options.Hurry}
	defer func() { err = errors.Join(err, s.close()) }() //nolint:contextcheck // ctx has ended by then
	if s.database, err = OpenDatabase(ctx, c); err != nil {
		return err
	}
	if err := s.listen(ctx); err != nil {
		return err
	}
	system.Reclaim(ctx)
	if err := system.refuse(ctx, c); err != nil {
		return err
	}
	if err := s.announce(announce); err != nil {
		return err
	}
	return s.serve(ctx)
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
	config config.Config
	system *System
	log    *slog.Logger
	token  string
	isNew  bool
	// database has the keys.
	database *store.Store
	tcp      net.Listener
	unix     net.Listener
	drain    time.Duration
	hurry    <-chan struct{}
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
	hosts := s.config.Hosts
	if host, _, err := net.SplitHostPort(s.config.Addr); err == nil && net.ParseIP(host) != nil && !net.ParseIP(host).IsUnspecified() {
		hosts = append(slices.Clip(hosts), host)
	}
	u := s.config.Uploads
	return gateway.New(gateway.Config{
		Engine: s.system.Engine, Authenticator: authenticator, Hosts: hosts, Uploads: uploads(s.config), MaxJSON: int64(u.JSON),
		MaxFile: int64(u.File), MaxRequest: int64(u.Request), MaxPosts: s.config.MaxRunning + s.config.MaxQueued, Log: s.log,
		Answers: s.database,
	})
}

func (s *server) serve(ctx context.Context) error {
	forAll, err := s.handler(&auth.Authenticator{Keys: s.database, Token: s.token, Now: time.Now})
	if err != nil {
		return err
	}
	forOwner, err := s.handler(nil)
	if err != nil {
		return err
	}
	servers := []*http.Server{s.http(forAll), s.http(s.ownerOnly(forOwner))}
	servers[1].ConnContext = withPeer
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
		case <-s.hurry: // nil waits for ever
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
	errs = append(errs, s.system.Close(ctx))
	if s.database != nil {
		errs = append(errs, s.database.Close())
	}
	return errors.Join(errs...)
}
