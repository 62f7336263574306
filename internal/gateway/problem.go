// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"glovebox/internal/engine"
)

// problem is a problem document.
type problem struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail,omitempty"`
	Code   engine.Code `json:"code"`
	// Errors are all faults of a request.
	Errors []string `json:"errors,omitempty"`
	// Execution is there when a run began and the service failed.
	Execution *engine.Execution `json:"execution,omitempty"`
	// retry is when to ask again; zero is retryAfter.
	retry time.Duration
}

func (g *Gateway) problem(w http.ResponseWriter, p problem) {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		after := retryAfter
		if p.retry > 0 { // in whole seconds, never too early
			after = strconv.FormatInt(int64((p.retry+time.Second-1)/time.Second), 10)
		}
		w.Header().Set("Retry-After", after)
	}
	g.encode(w, p.Status, "application/problem+json", p)
}

// fail answers with an error of the engine or of reading the request.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		// The pattern and not the path: a path may hold the name of somebody's file.
		g.Log.ErrorContext(r.Context(), "a request failed", "request", r.Pattern, "error", err)
	}
	g.problem(w, p)
}

func problemOf(err error) problem {
	var known *engine.Problem
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem{Status: http.StatusRequestEntityTooLarge, Code: engine.CodeTooLarge, Detail: fmt.Sprintf(
			"the request is larger than the limit of %d bytes", tooLarge.Limit)}
	case errors.As(err, &known):
		return problem{Status: statusOf(known.Code), Code: known.Code, Detail: known.Text, Errors: known.Faults, retry: known.RetryAfter}
	default:
		return problem{Status: http.StatusInternalServerError, Code: engine.CodeInternal, Detail: "an error of the server; its log has more"}
	}
}

// statusOf maps a code to an HTTP status, in this one place.
func statusOf(code engine.Code) int {
	switch code {
	case engine.CodeInvalid:
		return http.StatusBadRequest
	case engine.CodeLimit, engine.CodeImage, engine.CodeUnsupported:
		return http.StatusUnprocessableEntity
	case engine.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case engine.CodeOverloaded, engine.CodeQuota, engine.CodeRate:
		return http.StatusTooManyRequests
	case engine.CodeBudget:
		return http.StatusPaymentRequired
	case engine.CodeBackend, engine.CodeShuttingDown:
		return http.StatusServiceUnavailable
	case engine.CodeNotFound:
		return http.StatusNotFound
	case engine.CodeExpired:
		return http.StatusGone
	case engine.CodeDenied:
		return http.StatusForbidden
	case engine.CodeRunning, engine.CodeBusy, engine.CodeExists, engine.CodeEnded:
		return http.StatusConflict
	case engine.CodeStorage:
		return http.StatusInsufficientStorage
	case engine.CodeInternal, engine.CodeCanceled:
	}
	return http.StatusInternalServerError
}
