// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"glovebox/internal/sandbox"
)

// gather takes the events of one execution: it checks them, counts them, keeps what the record needs and feeds the
// sink. Nothing that a sandbox sends makes it grow beyond the limits of bundle.go and output.go.
type gather struct {
	stdout, stderr *stream
	feed           *feed
	asked          []string // Request.Return
	openBackground func() (*os.File, error)

	mu        sync.Mutex
	late      *stream // what earlier cells print; nil until they do
	shownLate []Data
	results   []Data
	size      int
	values    map[string]Data
	fault     *sandbox.Fault
	faults    int
	warnings  []sandbox.Notice
	notices   int
	dropped   int // notices beyond the limit
	unresults int // results beyond the limits
	closed    bool
}

// emit is the sandbox.Emit of the execution.
func (g *gather) emit(event sandbox.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return // the backend broke its promise to be silent after Exec
	}
	switch event.Kind {
	case sandbox.EventStdout:
		g.printLocked(event, g.stdout)
	case sandbox.EventStderr:
		g.printLocked(event, g.stderr)
	case sandbox.EventDisplay, sandbox.EventResult:
		g.resultLocked(event)
	case sandbox.EventError:
		g.faultLocked(event)
	case sandbox.EventNotice:
		g.noticeLocked(event)
	case sandbox.EventValue:
		g.valueLocked(event)
	default:
		g.warnLocked("unknown_event", fmt.Sprintf("an event of the unknown kind %q was dropped", clip(string(event.Kind), 20)))
	}
}

func (g *gather) printLocked(event sandbox.Event, s *stream) {
	if event.Background {
		s = g.lateLocked()
	}
	offset, kept := s.write(event.Text)
	g.feed.pushRange(sandbox.Event{Kind: event.Kind, Background: event.Background}, s, offset, kept)
}

// lateLocked is the stream of earlier cells, which must not be taken for the running one's.
func (g *gather) lateLocked() *stream {
	if g.late == nil {
		g.late = newStream(backgroundName, g.openBackground, g.stdout.limit)
	}
	return g.late
}

func (g *gather) resultLocked(event sandbox.Event) {
	if len(g.results)+len(g.shownLate) >= MaxResults {
		g.unresults++ // before it is looked at: that costs
		return
	}
	data, faults := checkBundle(event.Bundle)
	for _, fault := range faults {
		g.warnLocked("result_dropped", "dropped from the results: "+fault)
	}
	if data == nil {
		return
	}
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if g.size+size > MaxResultBytes {
		g.unresults++
		return
	}
	g.size += size
	if event.Background {
		g.shownLate = append(g.shownLate, data)
	} else {
		g.results = append(g.results, data)
	}
	g.feed.push(sandbox.Event{Kind: event.Kind, Bundle: &sandbox.Bundle{Data: data}, Background: event.Background})
}

func (g *gather) valueLocked(event sandbox.Event) {
	if !slices.Contains(g.asked, event.Name) {
		g.warnLocked("unknown_event", fmt.Sprintf("the value of %q came back and nobody asked for it: it was dropped", clip(event.Name, 40)))
		return
	}
	if _, twice := g.values[event.Name]; twice {
		g.warnLocked("value_dropped", fmt.Sprintf("the value of %s came back again: the first one is kept", event.Name))
		return
	}
	data, faults := checkBundle(event.Bundle)
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if g.size+size > MaxResultBytes {
		data, faults = nil, append(faults, fmt.Sprintf("all results together have more than %d bytes", MaxResultBytes))
	}
	for _, fault := range faults {
		g.warnLocked("value_dropped", fmt.Sprintf("the value of %s: %s", event.Name, fault))
	}
	if data == nil {
		return
	}
	g.size += size
	if g.values == nil {
		g.values = map[string]Data{}
	}
	g.values[event.Name] = data
	g.feed.push(sandbox.Event{Kind: event.Kind, Name: event.Name, Bundle: &sandbox.Bundle{Data: data}})
}

func (g *gather) faultLocked(event sandbox.Event) {
	if g.faults >= MaxFaults {
		g.warnLocked("error_dropped", fmt.Sprintf("an exception was dropped: at most %d of a run are shown", MaxFaults))
		return
	}
	g.faults++
	fault := checkFault(event.Fault)
	if fault == nil {
		return
	}
	g.fault = fault
	g.feed.push(sandbox.Event{Kind: sandbox.EventError, Fault: fault})
}

func (g *gather) noticeLocked(event sandbox.Event) {
	if notice := checkNotice(event.Notice); notice != nil {
		g.warnLocked(notice.Code, notice.Text)
	}
}

// warn adds a warning of the engine's own.
func (g *gather) warn(code, text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sayLocked(code, text)
}

// sayLocked adds a warning to the record and tells the sink.
func (g *gather) sayLocked(code, text string) {
	notice := sandbox.Notice{Code: code, Text: boundText(text, MaxNoticeText)}
	g.warnings = append(g.warnings, notice)
	g.feed.push(sandbox.Event{Kind: sandbox.EventNotice, Notice: &notice})
}

// warnLocked adds a warning that a program can cause, so it is bounded.
func (g *gather) warnLocked(code, text string) {
	if g.notices >= MaxNotices {
		g.dropped++
		return
	}
	g.notices++
	g.sayLocked(code, text)
}

// close ends the taking of events.
func (g *gather) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// fill writes what was gathered into the record.
func (g *gather) fill(x *Execution) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var outOmitted, errOmitted int64
	x.Stdout, outOmitted = g.stdout.text()
	x.Stderr, errOmitted = g.stderr.text()
	x.Output = Output{Stdout: g.stdout.totals(outOmitted), Stderr: g.stderr.totals(errOmitted)}
	x.Truncated = outOmitted > 0 || errOmitted > 0
	x.Usage.StdoutBytes, x.Usage.StderrBytes = x.Output.Stdout.Bytes, x.Output.Stderr.Bytes
	x.Results, x.Values, x.Error = g.results, g.values, g.fault
	if x.Results == nil {
		x.Results = []Data{}
	}
	for _, s := range []*stream{g.stdout, g.stderr, g.late} {
		if s != nil {
			g.streamWarningsLocked(s)
		}
	}
	if g.late != nil || g.shownLate != nil {
		x.Background = &Background{Results: g.shownLate}
	}
	if g.late != nil {
		var omitted int64
		x.Background.Text, omitted = g.late.text()
		x.Background.StreamTotals = g.late.totals(omitted)
	}
	if g.unresults > 0 {
		g.sayLocked("results_limit", fmt.Sprintf(
			"%d results were dropped: at most %d, and %d bytes together, are kept", g.unresults, MaxResults, MaxResultBytes))
	}
	if g.dropped > 0 {
		g.sayLocked("warnings_limit", fmt.Sprintf("%d more warnings were dropped: at most %d are kept", g.dropped, MaxNotices))
	}
	x.Warnings = append([]sandbox.Notice{}, g.warnings...)
}

// streamWarningsLocked says what is not as it was printed.
func (g *gather) streamWarningsLocked(s *stream) {
	invalid, failed := s.finish()
	totals := s.totals(0)
	if invalid > 0 {
		g.sayLocked("invalid_utf8", fmt.Sprintf(
			"%s bytes of %s are not UTF-8 text: they are shown as \uFFFD here and kept as they are in the file", thousands(invalid), s.name))
	}
	switch {
	case failed != nil:
		g.sayLocked("output_not_stored", fmt.Sprintf(
			"only the first %s bytes of %s could be stored: %s", thousands(totals.Kept), s.name, plain(failed)))
	case totals.Kept < totals.Bytes:
		g.sayLocked("output_limit", fmt.Sprintf(
			"%s had %s bytes: the first %s and the last %s are kept, the rest was counted and dropped",
			s.name, thousands(totals.Bytes), thousands(totals.Kept), thousands(InlineTail)))
	}
}
