// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"glovebox/internal/cli"
	"glovebox/internal/config"
	"glovebox/internal/daemon"
)

// serve runs a server for the command until the test ends.
func (b *bench) serve(t *testing.T) {
	t.Helper()
	c := config.Default(2)
	c.Data, c.Runtime, c.Addr, c.Prove, c.Pool.Enabled = b.data, t.TempDir(), "127.0.0.1:0", false, false
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Serve(ctx, c, b.Daemon, slog.New(slog.DiscardHandler), io.Discard) }()
	t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for !there(t, daemon.SocketPath(c.Data)) {
		time.Sleep(time.Millisecond)
	}
}

// there reports whether something matches the pattern that is not empty.
func there(t *testing.T, pattern string) bool {
	t.Helper()
	if t.Context().Err() != nil {
		t.Fatal("the test is over")
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if stat, err := os.Stat(path); err == nil && (stat.Size() > 0 || stat.Mode().Type() == os.ModeSocket) {
			return true
		}
	}
	return false
}

// TestInterruptIsTheSameWithAServer: who interrupts run --json gets the record of the run, canceled, whether a server ran it
// or not. With a server it was another object, with the code "internal".
func TestInterruptIsTheSameWithAServer(t *testing.T) { // not parallel: signals are the process's
	for name, served := range map[string]bool{"with a server": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "print begun\nspin", "--json")
			executions := "runs/*"
			if served {
				b.serve(t)
				executions = "executions"
			}
			b.Signals = []os.Signal{syscall.SIGUSR1}
			sent := make(chan error, 1)
			go func() {
				for !there(t, filepath.Join(b.data, executions, "*", "stdout")) {
					time.Sleep(time.Millisecond)
				}
				sent <- syscall.Kill(os.Getpid(), syscall.SIGUSR1)
			}()
			code := cli.Main(b.Process)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			var x struct{ ID, Status, Stdout, Code, Message string }
			if err := json.Unmarshal([]byte(b.out.String()), &x); err != nil {
				t.Fatalf("%v: %s", err, b.out)
			}
			if code != 130 || x.ID == "" || x.Status != "canceled" || x.Stdout != "begun\n" || x.Code != "" || x.Message == "" {
				t.Errorf("exit code %d: %s", code, b.out)
			}
		})
	}
}

// TestAFullServerIsTriedAgain: what is safe to send again is, and the wait is told; with --json stderr stays empty.
func TestAFullServerIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--json"}} {
		refused := false
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !refused {
				refused = true
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"code":"overloaded","detail":"the server is full\u001b[2J"}`)
				return
			}
			_, _ = io.WriteString(w, "event: started\ndata: {\"id\":\"x\"}\n\nevent: done\ndata: {\"id\":\"x\",\"status\":\"ok\"}\n\n")
		}))
		t.Cleanup(s.Close)
		b := newBench(t, "print x", append(args, "--server", s.URL, "--key", "k")...)
		code := cli.Main(b.Process)
		want := "glovebox: the server is full␛[2J; trying again in 1s\n"
		if args != nil {
			want = ""
		}
		if code != 0 || b.err.String() != want {
			t.Errorf("%v: exit code %d, stderr %q", args, code, b.err)
		}
	}
}
