// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"glovebox/internal/engine"
	"glovebox/internal/sandbox"
)

// view shows an execution to a person, or to a pipe, as it goes.
type view struct {
	stdout, stderr io.Writer
	// notes are ours, on stderr.
	notes  io.Writer
	out    *outFolder
	quiet  bool
	charts int
	failed error
}

func newView(s *session, out *outFolder, quiet bool) *view {
	v := &view{stdout: s.Stdout, stderr: s.Stderr, notes: s.Stderr, out: out, quiet: quiet}
	if s.StdoutTerminal {
		v.stdout = &visibleWriter{sink: s.Stdout}
	}
	if s.StderrTerminal {
		v.stderr = &visibleWriter{sink: s.Stderr}
	}
	return v
}

// Event shows one event.
func (v *view) Event(_ context.Context, event sandbox.Event) error {
	if v.quiet {
		return nil
	}
	var err error
	switch event.Kind {
	case sandbox.EventStdout:
		_, err = v.stdout.Write(event.Text)
	case sandbox.EventStderr:
		_, err = v.stderr.Write(event.Text)
	case sandbox.EventDisplay, sandbox.EventResult:
		err = v.bundle(event.Bundle.Data)
	case sandbox.EventError:
		_, err = io.WriteString(v.stderr, ended(event.Fault.Traceback))
	case sandbox.EventNotice:
		v.note("%s", event.Notice.Text)
	case sandbox.EventValue:
		if text := plainText(event.Bundle.Data); text != "" {
			_, err = io.WriteString(v.stdout, event.Name+" = "+ended(text))
		}
	}
	if err != nil {
		v.failed = &exitError{Code: engine.ExitInfra, Err: fmt.Errorf("print the output: %w", err)}
	}
	return err
}

// bundle saves a chart, or shows a value as text.
func (v *view) bundle(data engine.Data) error {
	if hasImage(data) {
		v.charts++
		if v.out.root != nil {
			v.out.note(v.out.chart(data, v.charts-1))
		}
		return nil
	}
	_, err := io.WriteString(v.stdout, ended(plainText(data)))
	return err
}

// note says something of our own.
func (v *view) note(format string, values ...any) {
	fmt.Fprintln(v.notes, "glovebox: "+visible(fmt.Sprintf(format, values...)))
}

// summary says at the end what the streams did not.
func (v *view) summary(x *engine.Execution, saved bool) {
	if x.Message != "" {
		v.note("%s", x.Message)
	}
	if saved {
		for _, name := range v.out.names {
			v.note("saved %s", name)
		}
		return
	}
	left := make([]string, 0, len(x.Artifacts))
	for _, a := range x.Artifacts {
		left = append(left, a.Name)
	}
	if n := len(left) + v.charts; n > 0 {
		if v.charts > 0 {
			left = append(left, plural(v.charts, "chart", "charts"))
		}
		them := "them"
		if n == 1 {
			them = "it"
		}
		v.note("%s not saved (%s): keep %s with --out DIR", plural(n, "result was", "results were"), joined(left), them)
	}
}

func plainText(data engine.Data) string {
	var text string
	if json.Unmarshal(data["text/plain"], &text) != nil {
		return ""
	}
	return text
}

// ended makes sure that text ends its line.
func ended(text string) string {
	if text == "" || text[len(text)-1] == '\n' {
		return text
	}
	return text + "\n"
}
