// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/auth"
	"glovebox/internal/engine"
	"glovebox/internal/gateway"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
	"glovebox/internal/store"
)

// keptStore is a store with a database, as a server has.
func keptStore(tb testing.TB) *engine.Store {
	tb.Helper()
	folder := tb.TempDir()
	database, err := store.Open(tb.Context(), "sqlite:"+filepath.Join(folder, "glovebox.db"))
	if err != nil {
		tb.Fatal(err)
	}
	blobs, err := store.OpenBlobs(tb.Context(), "file:"+filepath.Join(folder, "blobs"))
	if err != nil {
		tb.Fatal(err)
	}
	const hour = time.Hour
	kept, err := engine.NewStore(engine.StoreConfig{
		Spool: filepath.Join(folder, "executions"), Database: database, Blobs: blobs, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Retention: engine.Retention{Count: 1000, Age: hour, Code: hour, Events: hour, Answers: hour},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(kept.Close(), blobs.Close(), database.Close()); err != nil {
			tb.Error(err)
		}
	})
	return kept
}

// listed reads a page: the ids and where the next one begins.
func (a answer) listed(t *testing.T) (ids []string, next string) {
	t.Helper()
	object := a.object(t)
	rows, ok := object["executions"].([]any)
	if a.status != http.StatusOK || !ok {
		t.Fatalf("status %d: %.300s", a.status, a.body)
	}
	for _, row := range rows {
		fields, _ := row.(map[string]any)
		ids = append(ids, fmt.Sprint(fields["id"]))
		if fields["stdout"] != nil || fields["results"] != nil {
			t.Errorf("a list shows what was printed: %v", row)
		}
	}
	next, _ = object["next"].(string)
	return ids, next
}

// TestList: a tenant's own executions, the newest first, page by page, by status.
func TestList(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{"alpha": principal("alpha", auth.ScopeRun), "beta": principal("beta", auth.ScopeRun)}))
	var made []string
	for i := range 5 {
		text := `{"code": "print x"}`
		if i%2 == 1 {
			text = `{"code": "raise E x"}`
		}
		made = append(made, fmt.Sprint(b.as(t, "alpha", "POST", "/v1/executions", text).object(t)["id"]))
	}
	slices.Reverse(made)
	var got []string
	before := ""
	for pages := 1; ; pages++ {
		ids, next := b.as(t, "alpha", "GET", "/v1/executions?limit=2&before="+url.QueryEscape(before), "").listed(t)
		got, before = append(got, ids...), next
		if next == "" {
			break
		}
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
	}
	if !slices.Equal(got, made) {
		t.Errorf("listed %v, made %v", got, made)
	}
	if ids, _ := b.as(t, "alpha", "GET", "/v1/executions?status=error", "").listed(t); !slices.Equal(ids, []string{made[1], made[3]}) {
		t.Errorf("those with an error: %v of %v", ids, made)
	}
	if ids, _ := b.as(t, "beta", "GET", "/v1/executions", "").listed(t); len(ids) > 0 {
		t.Errorf("another tenant sees %v", ids)
	}
	for _, query := range []string{"limit=0", "limit=x", "limit=100000", "status=odd", "before=!", "limit=1&limit=2", "pages=1", "%zz"} {
		b.as(t, "alpha", "GET", "/v1/executions?"+query, "").want(t, http.StatusBadRequest, "invalid_request")
	}
}

// TestCodeNeedsAudit: the code is read with its own scope, and not by another tenant's.
func TestCodeNeedsAudit(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{
		"run": principal("alpha", auth.ScopeRun), "audit": principal("alpha", auth.ScopeAudit), "beta": principal("beta", auth.Scopes()...),
	}))
	made := b.as(t, "run", "POST", "/v1/executions", `{"code": "print x\nprint y"}`)
	path := fmt.Sprintf("/v1/executions/%v/code", made.object(t)["id"])
	b.as(t, "run", "GET", path, "").want(t, http.StatusForbidden, "forbidden", "audit")
	b.as(t, "beta", "GET", path, "").want(t, http.StatusNotFound, "not_found")
	if a := b.as(t, "audit", "GET", path, ""); a.status != http.StatusOK || a.object(t)["code"] != "print x\nprint y" {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}

// TestDeleteTenant: by its own admin or the operator; another one's is not found, and a key without the scope is refused.
func TestDeleteTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{
		"run": principal("alpha", auth.ScopeRun), "admin": principal("alpha", auth.ScopeAdmin, auth.ScopeRun), "beta": principal("beta", auth.Scopes()...),
	}))
	id := fmt.Sprint(b.as(t, "run", "POST", "/v1/executions", `{"code": "print x"}`).object(t)["id"])
	b.as(t, "run", "DELETE", "/v1/tenants/alpha", "").want(t, http.StatusForbidden, "forbidden", "admin")
	for _, name := range []string{"alpha", "%2e%2e", "never", "A"} {
		b.as(t, "beta", "DELETE", "/v1/tenants/"+name, "").want(t, http.StatusNotFound, "not_found")
	}
	if a := b.as(t, "run", "GET", "/v1/executions/"+id, ""); a.status != http.StatusOK {
		t.Errorf("after the attempts: status %d", a.status)
	}
	if a := b.as(t, "admin", "DELETE", "/v1/tenants/alpha", ""); a.status != http.StatusNoContent {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	b.as(t, "run", "GET", "/v1/executions/"+id, "").want(t, http.StatusNotFound, "not_found")
	if a := b.as(t, token, "DELETE", "/v1/tenants/beta", ""); a.status != http.StatusNoContent {
		t.Errorf("the operator: status %d: %s", a.status, a.body)
	}
}

// quick is a backend whose sandboxes cost nothing.
type quick struct{ *sandboxtest.Fake }

// Create makes a sandbox that does nothing.
func (q quick) Create(context.Context, sandbox.ID, sandbox.Class) (sandbox.Sandbox, error) {
	return quickBox{}, nil
}

type quickBox struct{ sandbox.Sandbox }

func (quickBox) Lease(context.Context, sandbox.Lease) error { return nil }
func (quickBox) Open(context.Context, sandbox.OpenSpec) (sandbox.Session, error) {
	return quickSession{}, nil
}
func (quickBox) Stop(context.Context) error                   { return nil }
func (quickBox) Destroy(context.Context) error                { return nil }
func (quickBox) Usage(context.Context) (sandbox.Usage, error) { return sandbox.Usage{}, nil }
func (quickBox) Workspace(context.Context) (*os.File, error)  { return os.Open(os.DevNull) }

type quickSession struct{ sandbox.Session }

func (quickSession) Exec(_ context.Context, _ sandbox.Code, emit sandbox.Emit) (sandbox.Result, error) {
	emit(sandbox.Event{Kind: sandbox.EventStdout, Text: []byte("hello\n")})
	return sandbox.Result{End: sandbox.EndCanceled}, nil // so that no files are looked for
}

// BenchmarkExecution is an execution over HTTP whose sandbox costs nothing: the caller, the queue, what is printed, the record.
func BenchmarkExecution(b *testing.B) {
	store := keptStore(b)
	e, err := engine.New(engine.Config{
		Backends: []sandbox.Backend{quick{sandboxtest.NewFake(b.TempDir())}}, Images: anyImage{}, Store: store, Image: "python", Maxima: policy.DefaultMaxima(),
		Artifacts: artifact.DefaultLimits(), MaxRunning: 4, MaxQueued: 4, QueueWait: time.Minute, Patience: engine.DefaultPatience(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, NewID: engine.NewIDs(),
	})
	if err != nil {
		b.Fatal(err)
	}
	handler, err := gateway.New(gateway.Config{
		Engine: e, Authenticator: keyring{token: auth.Operator()}, Uploads: b.TempDir(), MaxJSON: 1 << 20, MaxFile: 1 << 20, MaxRequest: 4 << 20,
		MaxPosts: 100, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL+"/v1/executions", strings.NewReader(`{"code": "x"}`))
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(request)
		if err != nil || response.StatusCode != http.StatusOK {
			b.Fatal(response, err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
}
