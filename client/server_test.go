// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"glovebox/client"
	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "a-key-for-tests-only"

type anyImage struct{}

func (anyImage) Use(name string) (string, func(), error) { return name, func() {}, nil }

// server is a whole server over the fake backend. Its executions fail where faults say so.
func server(faults ...sandboxtest.Fault) (url string, end func() error, err error) {
	dir, err := os.MkdirTemp("", "client-*")
	if err != nil {
		return "", nil, err
	}
	c := config.Default(2)
	c.Data, c.Runtime, c.Addr, c.Token = filepath.Join(dir, "data"), filepath.Join(dir, "runtime"), "127.0.0.1:0", key
	c.Prove, c.Pool.Enabled, c.Drain = false, false, config.Duration(time.Minute)
	options := daemon.Options{Images: anyImage{}, Backends: []daemon.Constructor{
		{Name: sandboxtest.FakeName, New: func(s daemon.Settings) (sandbox.Backend, error) {
			return sandboxtest.NewFake(filepath.Join(dir, "fake"), faults...), nil
		}},
	}}
	ctx, cancel := context.WithCancelCause(context.Background())
	said, says := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := daemon.Serve(ctx, c, options, slog.New(slog.DiscardHandler), says)
		says.CloseWithError(errors.Join(err, io.EOF))
		ended <- err
	}()
	end = func() error {
		cancel(errors.New("the test is over"))
		return errors.Join(<-ended, os.RemoveAll(dir))
	}
	buffer := make([]byte, 4096)
	n, err := said.Read(buffer)
	if err != nil {
		return "", nil, errors.Join(err, end())
	}
	first, _, _ := strings.Cut(string(buffer[:n]), "\n")
	return strings.TrimPrefix(first, "glovebox listens on "), end, nil
}

// serve returns a client of a server of its own.
func serve(t *testing.T, faults ...sandboxtest.Fault) *client.Client {
	t.Helper()
	url, end, err := server(faults...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return connect(t, client.Options{URL: url, Key: key})
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
