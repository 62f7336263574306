// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"strings"
	"syscall"
)

// Kind says what sort of failure an [Error] is.
type Kind int

// The kinds of failure.
const (
	KindFailed    Kind = iota // anything that has no kind of its own
	KindInvalid               // a definition or a name that cannot be used
	KindNotBuilt              // no image of that name
	KindInUse                 // the image is pinned by a running process
	KindTool                  // a program that the build needs is missing
	KindPrivilege             // the build needs root or namespaces it may not have
	KindDisk                  // not enough space
	KindNetwork               // a mirror or index cannot be reached
	KindCanceled              // the caller's context ended
)

// Error is the error of every exported function of this package. Text is for
// people: it says what happened, to what, and what to do about it.
type Error struct {
	Kind Kind
	Text string
	Err  error // the cause; may be nil
}

// Error returns Text and, when there is one, the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Text
	}
	return e.Text + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of err, KindFailed for an error of another package.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return KindFailed
}

// classify gives err a kind by its cause. An error that has one keeps it.
func classify(ctx context.Context, text string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) && known.Kind != KindFailed {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return &Error{Kind: KindCanceled, Text: text + " was stopped; what was finished is kept for the next build", Err: context.Cause(ctx)}
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return &Error{Kind: KindDisk, Text: text + ": the disk is full: free some space and build again", Err: err}
	}
	return &Error{Kind: KindFailed, Text: text, Err: err}
}

// classifyOutput finds the usual causes in what a failed tool printed.
func classifyOutput(tool, output string, err error) error {
	contains := func(texts ...string) bool {
		for _, text := range texts {
			if strings.Contains(output, text) {
				return true
			}
		}
		return false
	}
	cause := &commandError{tool: tool, output: output, err: err}
	switch {
	case contains("No space left on device", "Disk quota exceeded"):
		return &Error{Kind: KindDisk, Text: tool + ": the disk is full: free some space and build again", Err: cause}
	case contains("NO_PUBKEY", "is not signed"):
		return &Error{Kind: KindTool, Text: tool + ": the mirror's signature cannot be checked: run `apt-get install debian-archive-keyring`", Err: cause}
	case contains("DO NOT MATCH THE HASHES"):
		return &Error{Kind: KindFailed, Text: tool + ": the index serves another file than the lock file names: check the index, or renew the lock file", Err: cause}
	case contains("Temporary failure resolving", "Could not resolve", "Could not connect", "Connection refused",
		"Failed to establish a new connection", "NameResolutionError", "Network is unreachable", "Connection timed out",
		"Read timed out", "ConnectTimeoutError", "Unable to connect"):
		return &Error{Kind: KindNetwork, Text: tool + ": the mirror or index cannot be reached: check the network and the host's own apt and pip configuration", Err: cause}
	case contains("Operation not permitted", "permission denied", "Permission denied"):
		return &Error{Kind: KindPrivilege, Text: tool + " was refused by the system: the build needs root with the right to make namespaces and mounts (CAP_SYS_ADMIN)", Err: cause}
	}
	return cause
}

// commandError is a failed tool with the end of what it printed.
type commandError struct {
	tool   string
	output string
	err    error
}

func (e *commandError) Error() string {
	text := e.tool + ": " + e.err.Error()
	if e.output != "" {
		text += "\n" + e.output
	}
	return text
}

func (e *commandError) Unwrap() error { return e.err }
