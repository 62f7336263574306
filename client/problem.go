// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem says why the server did not do what it was asked for. Callers branch on Code, and show Error.
type Problem struct {
	// Status is that of HTTP.
	Status int
	// Code is a stable word: invalid_request, limit_exceeded, too_large, image_not_found, backend_unavailable, unsupported,
	// overloaded, shutting_down, expired, canceled, not_found, still_running, storage, internal, infra, unauthorized,
	// forbidden, ... It is empty when what answered is no Glovebox server.
	Code string
	// Detail is one sentence: what happened, to what, what to do.
	Detail string
	// Faults are all that was wrong with the request, when that is several things.
	Faults []string
	// RetryAfter is the pause that the server asks for; zero when it says nothing.
	RetryAfter time.Duration
	// Execution is the record of what was run, when the server failed after it had begun.
	Execution *Execution
}

// Error is the detail with all faults.
func (p *Problem) Error() string {
	if len(p.Faults) > 0 {
		return p.Detail + ": " + strings.Join(p.Faults, "; ")
	}
	return p.Detail
}

// IsCode reports whether err is a Problem with this code.
func IsCode(err error, code string) bool {
	var problem *Problem
	return errors.As(err, &problem) && problem.Code == code
}

// document is a problem document (RFC 9457).
type document struct {
	Status    int        `json:"status"`
	Code      string     `json:"code"`
	Detail    string     `json:"detail"`
	Errors    []string   `json:"errors"`
	Execution *Execution `json:"execution"`
}

func (d document) problem() *Problem {
	return &Problem{Status: d.Status, Code: d.Code, Detail: d.Detail, Faults: d.Errors, Execution: d.Execution}
}

// problemOf reads why an answer is none of success.
func problemOf(answer *http.Response) *Problem {
	// A record that comes with a problem makes it as large as an answer.
	most := int64(MaxProblem)
	if answer.StatusCode == http.StatusInternalServerError {
		most = MaxAnswer
	}
	var d document
	if err := json.NewDecoder(io.LimitReader(answer.Body, most)).Decode(&d); err != nil || d.Code == "" {
		d = document{Detail: fmt.Sprintf("the server answered %s: it may be no Glovebox server, or stand behind something that is none", answer.Status)}
	}
	p := d.problem()
	p.Status, p.RetryAfter = answer.StatusCode, retryAfter(answer.Header.Get("Retry-After"), time.Now())
	return p
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	const most = 24 * 60 * 60
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), most)) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
