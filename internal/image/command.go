// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"time"
)

// Limits of a command that a step runs.
const (
	commandTimeout = 45 * time.Minute // a slow mirror is slow; a dead one ends by its own time-outs
	waitDelay      = 10 * time.Second // for output after the command was killed
	maxTail        = 6 << 10          // the end of what it printed, for the error
	maxOutput      = 8 << 20          // of standard output, where it is the result
)

// command is a program to run with its own mount and pid namespaces.
type command struct {
	name    string   // for errors
	args    []string // args[0] is looked up in PATH
	env     []string // added to the host's environment
	dir     string
	stdin   io.Reader
	offline bool // no network
}

// run runs c until it ends and returns its standard output. The error has the
// end of what it printed, with passwords in addresses left out.
func (c command) run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, fmt.Errorf("%s did not end within %v", c.name, commandTimeout))
	defer cancel()
	// isolate ties the command's life to the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	isolate(cmd, c.offline)
	cmd.Dir = c.dir
	cmd.Env = append(cmd.Environ(), c.env...)
	cmd.Stdin = c.stdin
	cmd.WaitDelay = waitDelay
	output := &limitedBuffer{limit: maxOutput}
	tail := &tailBuffer{limit: maxTail}
	cmd.Stdout = io.MultiWriter(output, tail)
	cmd.Stderr = tail
	err := cmd.Run()
	if err == nil {
		return output.Bytes(), nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, classifyOutput(c.name, redact(tail.String()), err)
}

// reUserinfo matches the user and password in an address.
var reUserinfo = regexp.MustCompile(`(://)[^/@\s]+@`)

// redact removes credentials from addresses in text.
func redact(text string) string { return reUserinfo.ReplaceAllString(text, "${1}***@") }

// tailBuffer keeps the last limit bytes written to it.
type tailBuffer struct {
	limit int
	data  []byte
	cut   bool
}

// Write never fails.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if extra := len(t.data) - t.limit; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
		t.cut = true
	}
	return len(p), nil
}

// String returns what is kept, beginning with a whole line when some was cut.
func (t *tailBuffer) String() string {
	data := t.data
	if t.cut {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			data = data[i+1:]
		}
		return "…\n" + string(bytes.TrimSpace(data))
	}
	return string(bytes.TrimSpace(data))
}

// limitedBuffer fails when more than limit bytes are written to it.
type limitedBuffer struct {
	bytes.Buffer
	limit int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.limit {
		return 0, fmt.Errorf("more than %d MiB of output", l.limit>>20)
	}
	return l.Buffer.Write(p)
}
