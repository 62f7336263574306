// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/client"
	"glovebox/internal/artifact"
	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/gateway"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "a-key-for-tests-only"

type anyImage struct{}

func (anyImage) Use(name string) (string, func(), error) { return name, func() {}, nil }

type keyring struct{}

func (keyring) Authenticate(_ context.Context, token string) (*auth.Principal, error) {
	if token != key {
		return nil, auth.ErrUnknown
	}
	return auth.Operator(), nil
}

// server is a whole server over the fake backend. Its executions fail where faults say so.
func server(faults ...sandboxtest.Fault) (*httptest.Server, func() error, error) {
	dir, err := os.MkdirTemp("", "client-*")
	if err != nil {
		return nil, nil, err
	}
	fake := sandboxtest.NewFake(filepath.Join(dir, "fake"), faults...)
	store, err := engine.OpenStore(filepath.Join(dir, "executions"), engine.Retention{Count: 100, Age: time.Hour}, time.Now)
	if err != nil {
		return nil, nil, err
	}
	e, err := engine.New(engine.Config{
		Backends: []sandbox.Backend{fake}, Images: anyImage{}, Store: store, Image: "python", Maxima: policy.DefaultMaxima(),
		Artifacts: artifact.DefaultLimits(), MaxRunning: 4, MaxQueued: 4, QueueWait: time.Minute, Patience: engine.DefaultPatience(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, NewID: engine.NewIDs(),
	})
	if err != nil {
		return nil, nil, err
	}
	face, err := gateway.New(gateway.Config{
		Engine: e, Authenticator: keyring{}, Uploads: filepath.Join(dir, "uploads"), MaxJSON: 1 << 20, MaxFile: 1 << 20, MaxRequest: 4 << 20,
		MaxPosts: 100, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	s := httptest.NewServer(face)
	return s, func() error {
		s.Close()
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("test over"))
		defer cancel()
		e.Close(ctx)
		return errors.Join(fake.Close(), store.Close(), os.RemoveAll(dir))
	}, nil
}

// serve returns a client of a server of its own.
func serve(t *testing.T, faults ...sandboxtest.Fault) *client.Client {
	t.Helper()
	s, end, err := server(faults...)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, client.Options{URL: s.URL, Key: key})
	t.Cleanup(func() {
		c.Close()
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func connect(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answering returns a client of a server that is this handler.
func answering(t *testing.T, handle http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return connect(t, client.Options{URL: s.URL, Key: key})
}
