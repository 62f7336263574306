// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"time"
)

// measured tells Observe of every answer.
func (g *Gateway) measured(next http.Handler) http.Handler {
	if g.Observe == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, seen, answer := time.Now(), &matched{}, &statusWriter{ResponseWriter: w}
		defer func() { g.Observe(seen.method, seen.path, answer.status, time.Since(began)) }()
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), matchedKey{}, seen)))
	})
}

// matched is the route that a request turned out to be for.
type matched struct{ method, path string }

type matchedKey struct{}

func (r route) matched(request *http.Request) {
	if seen, ok := request.Context().Value(matchedKey{}).(*matched); ok {
		seen.method, seen.path = r.method, r.path
	}
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (s *statusWriter) WriteHeader(status int) {
	const final = 200 // what comes before is about the answer to come
	if s.status < final {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

func (s *statusWriter) Write(p []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController; Flush and Hijack for those who do not use it.
func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Flush sends what is buffered.
func (s *statusWriter) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() } // the interface has no error

// Hijack hands the connection over.
func (s *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	s.status = http.StatusSwitchingProtocols
	return http.NewResponseController(s.ResponseWriter).Hijack()
}
