// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"glovebox/internal/auth"
	"glovebox/internal/engine"
)

// recovering turns a panic into a problem, at this edge only.
func (g *Gateway) recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer g.caught(w, r)
		next.ServeHTTP(w, r)
	})
}

// caught is deferred; it lets pass the panic that means that the client is gone.
func (g *Gateway) caught(w http.ResponseWriter, r *http.Request) {
	switch caught := recover(); caught {
	case nil:
	case http.ErrAbortHandler:
		panic(caught)
	default:
		g.Log.ErrorContext(r.Context(), "a handler panicked", "panic", caught, "stack", string(debug.Stack()))
		g.problem(w, problem{Status: http.StatusInternalServerError, Code: engine.CodeInternal, Detail: "an error of the server"})
	}
}

// guarded refuses what does not come from a caller who is meant: another name for this server (DNS rebinding), another
// site's page, no token.
func (g *Gateway) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		switch {
		case !g.knownHost(r.Host):
			g.problem(w, problem{Status: http.StatusForbidden, Code: "unknown_host", Detail: "this server is not reached under that name: use a loopback name, or add the name to hosts in the configuration"})
		case !g.knownOrigin(r):
			g.problem(w, problem{Status: http.StatusForbidden, Code: "unknown_origin", Detail: "pages of other origins may not use this server"})
		case r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || r.URL.Path == documentPath || r.URL.Path == pagePath:
			next.ServeHTTP(w, r)
		default:
			if who := g.authenticate(w, r); who != nil {
				next.ServeHTTP(w, withCaller(r, who))
			}
		}
	})
}

func (g *Gateway) knownHost(host string) bool {
	name := host
	if split, _, err := net.SplitHostPort(host); err == nil {
		name = split
	}
	return g.knownName(strings.Trim(name, "[]"))
}

func (g *Gateway) knownName(name string) bool {
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return strings.EqualFold(name, "localhost") ||
		slices.ContainsFunc(*g.hosts.Load(), func(host string) bool { return strings.EqualFold(host, name) })
}

// knownOrigin takes a request without an origin, which no page of another site can send, and one of this very server.
func (g *Gateway) knownOrigin(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	origin, err := url.Parse(values[0])
	if err != nil || len(values) > 1 || origin.Scheme != "http" && origin.Scheme != "https" || origin.Path != "" {
		return false
	}
	if strings.EqualFold(origin.Host, r.Host) {
		return true
	}
	// Behind a proxy the origin may have another port than the one the proxy speaks to.
	return slices.ContainsFunc(*g.hosts.Load(), func(host string) bool { return strings.EqualFold(host, origin.Hostname()) })
}

// authenticate returns who the caller is, or answers that nobody is let in.
func (g *Gateway) authenticate(w http.ResponseWriter, r *http.Request) *auth.Principal {
	if g.Authenticator == nil {
		return auth.Operator()
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Of several, a proxy in front of this server may have judged another one.
	if !strings.EqualFold(scheme, "Bearer") || len(r.Header.Values("Authorization")) > 1 {
		token = ""
	}
	who, err := g.Authenticator.Authenticate(r.Context(), strings.TrimSpace(token))
	if err == nil {
		return who
	}
	for _, known := range []error{auth.ErrMissing, auth.ErrMalformed, auth.ErrUnknown, auth.ErrRevoked, auth.ErrExpired} {
		if errors.Is(err, known) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="glovebox"`)
			g.problem(w, problem{
				Status: http.StatusUnauthorized, Code: "unauthorized",
				Detail: known.Error() + ": send a key as Authorization: Bearer KEY; `glovebox keys create` makes one, and the operator's own is " +
					"in the server's data folder, in the file token",
			})
			return nil
		}
	}
	g.Log.ErrorContext(r.Context(), "looking a key up failed", "error", err)
	g.problem(w, problem{Status: http.StatusServiceUnavailable, Code: engine.CodeStorage, Detail: "keys cannot be looked up now: try again later"})
	return nil
}
