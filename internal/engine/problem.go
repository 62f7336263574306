// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// Code is a stable word for a kind of problem.
type Code string

// The codes.
const (
	CodeInvalid      Code = "invalid_request"
	CodeLimit        Code = "limit_exceeded"      // a limit of the request is above the configured maximum
	CodeTooLarge     Code = "too_large"           // an upload, a body or a text is above its limit
	CodeImage        Code = "image_not_found"     // the image is not built
	CodeBackend      Code = "backend_unavailable" // the host lacks what the backend needs
	CodeUnsupported  Code = "unsupported"         // the backend cannot do what was asked
	CodeOverloaded   Code = "overloaded"          // no place is free, and the queue is full
	CodeQuota        Code = "quota_exceeded"      // the caller has as much alive as its key or tenant may
	CodeRate         Code = "rate_limited"        // the key's requests came too fast
	CodeBudget       Code = "budget_exceeded"     // the tenant has used what it may in this month
	CodeShuttingDown Code = "shutting_down"
	CodeExpired      Code = "expired"  // the lease of the sandbox was over
	CodeCanceled     Code = "canceled" // the caller gave up before anything ran
	CodeNotFound     Code = "not_found"
	CodeRunning      Code = "still_running" // the execution is not over yet
	CodeBusy         Code = "busy"          // what was asked to do something does something else
	CodeEnded        Code = "ended"         // the process has ended
	CodeExists       Code = "exists"        // the name is taken
	CodeDenied       Code = "denied"        // not allowed to the user inside the sandbox
	CodeStorage      Code = "storage"       // the data folder cannot be written
	CodeInternal     Code = "internal"
)

// Problem says why a request was not carried out. Text is safe to show: what happened, to what, what to do.
type Problem struct {
	Code Code
	Text string
	// Faults are all that was wrong, when there are several things.
	Faults []string
	// RetryAfter is when to ask again; zero leaves it to the face.
	RetryAfter time.Duration
	Err        error
}

func (p *Problem) Error() string {
	if len(p.Faults) > 0 {
		return p.Text + ": " + strings.Join(p.Faults, "; ")
	}
	return p.Text
}

func (p *Problem) Unwrap() error { return p.Err }

// CodeOf returns the code of a Problem, or CodeInternal.
func CodeOf(err error) Code {
	if problem, ok := errors.AsType[*Problem](err); ok {
		return problem.Code
	}
	return CodeInternal
}

func shuttingDown() error {
	return &Problem{Code: CodeShuttingDown, Text: "the server is shutting down: try again soon"}
}

func notFound(what string) error { return &Problem{Code: CodeNotFound, Text: what} }

// plain is an error's text without the host's paths, which are nobody's business.
func plain(err error) string {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return "the disk of the data folder is full; free some space there"
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err.Error()
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err.Error()
	}
	return err.Error()
}

// flatten lists the leaves of joined errors.
func flatten(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		for _, one := range joined.Unwrap() {
			texts = append(texts, flatten(one)...)
		}
		return texts
	}
	return []string{err.Error()}
}
