// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"glovebox/internal/auth"
	"glovebox/internal/gateway"
)

// keyring lets in who has one of its tokens.
type keyring map[string]*auth.Principal

func (k keyring) Authenticate(_ context.Context, token string) (*auth.Principal, error) {
	switch {
	case token == "":
		return nil, auth.ErrMissing
	case token == "store-is-gone":
		return nil, errors.New("connection refused: /secret/path")
	case k[token] == nil:
		return nil, auth.ErrUnknown
	}
	return k[token], nil
}

func principal(tenant string, scopes ...auth.Scope) *auth.Principal {
	return auth.Of(auth.Key{ID: "key-of-" + tenant, Tenant: tenant, Scopes: scopes})
}

func withKeys(keys keyring) change {
	return change{gateway: func(c *gateway.Config) {
		keys[token] = auth.Operator()
		c.Authenticator = keys
	}}
}

func (b *bench) as(t *testing.T, key, method, path, body string) answer {
	t.Helper()
	return b.do(t, method, path, "application/json", body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) })
}

// TestForeignIDsDoNotExist: a second tenant's key tries every route on the first one's ids, and gets the answer of an id that
// never was. New routes are covered by the table.
func TestForeignIDsDoNotExist(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{"alpha": principal("alpha", auth.Scopes()...), "beta": principal("beta", auth.Scopes()...)}))
	made := b.as(t, "alpha", "POST", "/v1/executions", `{"code": "print('secret')\nwrite out.txt secret"}`)
	held := b.as(t, "alpha", "POST", "/v1/sandboxes", `{}`)
	var execution, box struct{ ID, Tenant, Key string }
	if err := errors.Join(json.Unmarshal([]byte(made.body), &execution), json.Unmarshal([]byte(held.body), &box)); err != nil {
		t.Fatal(err, made.body, held.body)
	}
	if execution.Tenant != "alpha" || execution.Key != "key-of-alpha" {
		t.Errorf("the execution belongs to %+v", execution)
	}
	bodies := map[string]string{"/execute": `{"code": "print(1)"}`, "/fork": `{}`}
	tried := 0
	for _, route := range gateway.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if !strings.Contains(path, "{id}") {
			continue
		}
		tried++
		id := execution.ID
		if strings.HasPrefix(path, "/v1/sandboxes") {
			id = box.ID
		}
		body := ""
		for suffix, text := range bodies {
			if strings.HasSuffix(path, suffix) {
				body = text
			}
		}
		at := func(id string) string { return strings.NewReplacer("{id}", id, "{name...}", "out.txt").Replace(path) }
		foreign, never := b.as(t, "beta", method, at(id), body), b.as(t, "beta", method, at("neverwas"), body)
		if foreign.status != http.StatusNotFound || strings.ReplaceAll(foreign.body, id, "neverwas") != never.body {
			t.Errorf("%s: status %d, %.300s; of one that never was: %d, %.300s", route, foreign.status, foreign.body, never.status, never.body)
		}
	}
	if tried < 30 {
		t.Errorf("only %d routes have an id: is the table read?", tried)
	}
	// All of it is still there for its owner.
	for _, path := range []string{"/v1/executions/" + execution.ID, "/v1/sandboxes/" + box.ID} {
		if a := b.as(t, "alpha", "GET", path, ""); a.status != http.StatusOK {
			t.Errorf("%s: status %d after the attempts", path, a.status)
		}
	}
	if a := b.as(t, "alpha", "DELETE", "/v1/sandboxes/"+box.ID, ""); a.status != http.StatusNoContent {
		t.Errorf("delete: status %d", a.status)
	}
}

// TestScopesAreAsked: a key without a route's scope is refused before anything is looked at, and is told what it lacks.
func TestScopesAreAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{"none": principal("alpha")}))
	for _, route := range gateway.Routes() {
		method, path, _ := strings.Cut(route, " ")
		if slices.Contains([]string{"/healthz", "/readyz", "/docs", "/v1/openapi.json"}, path) {
			continue
		}
		a := b.as(t, "none", method, strings.NewReplacer("{id}", "x", "{name...}", "y").Replace(path), "{}")
		if a.status != http.StatusForbidden || !strings.Contains(a.body, "lacks the scope") {
			t.Errorf("%s: status %d, %.200s", route, a.status, a.body)
		}
	}
}

// TestKeysBind: what a key may use is checked with the defaults too.
func TestKeysBind(t *testing.T) {
	t.Parallel()
	bound := auth.Of(auth.Key{ID: "k", Tenant: "alpha", Scopes: auth.DefaultScopes(), Policy: "tight", Images: []string{"python"}})
	b := newBench(t, withKeys(keyring{"bound": bound}))
	for body, want := range map[string]int{
		`{"code": "print(1)", "policy": "tight"}`:                                       http.StatusOK,
		`{"code": "print(1)"}`:                                                          http.StatusBadRequest,
		`{"code": "print(1)", "policy": "standard"}`:                                    http.StatusBadRequest,
		`{"code": "print(1)", "policy": "tight", "image": "other"}`:                     http.StatusBadRequest,
		`{"code": "print(1)", "policy": "tight", "image": "python", "backend": "fake"}`: http.StatusOK,
	} {
		if a := b.as(t, "bound", "POST", "/v1/executions", body); a.status != want {
			t.Errorf("%s: status %d, want %d: %.200s", body, a.status, want, a.body)
		}
	}
}

// TestWhyNobodyIsLetIn: each reason has its words, and a store that fails shows nothing of itself.
func TestWhyNobodyIsLetIn(t *testing.T) {
	t.Parallel()
	b := newBench(t, withKeys(keyring{}))
	for key, want := range map[string]struct {
		status int
		words  string
	}{
		"":              {http.StatusUnauthorized, "no key was sent"},
		"gbx_unknown":   {http.StatusUnauthorized, "never made"},
		"store-is-gone": {http.StatusServiceUnavailable, "try again"},
	} {
		a := b.as(t, key, "GET", "/v1/executions/x", "")
		if a.status != want.status || !strings.Contains(a.body, want.words) || strings.Contains(a.body, "secret") {
			t.Errorf("%q: status %d, %.300s", key, a.status, a.body)
		}
	}
}
