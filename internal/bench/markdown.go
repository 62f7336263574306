// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// page collects a Markdown page.
type page struct{ strings.Builder }

func (p *page) line(format string, values ...any) { fmt.Fprintf(p, format+"\n", values...) }

// WriteMarkdown writes the report as a page with tables that can also be read as plain text.
func (r *Report) WriteMarkdown(w io.Writer) error {
	p := &page{}
	p.line("# Benchmarks\n")
	p.line("Made by `glovebox bench` on %s; not edited by hand. Figures of one machine at one time: run it on yours.\n", r.Date.Format("2006-01-02 15:04 UTC"))
	if r.Short {
		p.line("**Short form: it shows that every scenario works. Its figures mean nothing.**\n")
	}
	r.machine(p)
	r.peers(p)
	p.line("%s", reading)
	for _, s := range r.Scenarios {
		s.page(p)
	}
	r.unmeasured(p)
	_, err := io.WriteString(w, strings.TrimRight(p.String(), "\n")+"\n")
	return err
}

const reading = `## How to read the tables
Times are milliseconds. *result* is the time until the last output arrived, *end* until the answer was complete: the sandbox gone, its files
read. For a program, *end* is the end of its process. Percentiles are values that occurred (nearest rank): with fewer than 100 runs p99 is
the slowest one. In an open loop requests come at a fixed rate whatever became of the earlier ones, and latency counts from the scheduled
moment. "In turn" is a closed loop, drained: one run at a time, begun when nothing is left of the one before and the server has come to
rest, that is, has made its next sandboxes ready; the subjects alternate, so that a disturbance hits all alike, and each had one unmeasured
run of each work before. "Pool empty" is a sandbox that is made when it is asked for. Every output was compared with the right one.
*Faults* are page faults of a run, where they can be told: a program's own and those of what it waited for, or of the server with all its
sandboxes, the making of the next one included. *Busy* is how many processors were at work on average, with the bench and all it started,
and with anything else.
`

func (r *Report) machine(p *page) {
	m := r.Machine
	kind := ""
	if m.Hypervisor {
		kind = ", virtual machine"
	}
	var packages []string
	for name, version := range r.Image.Packages {
		packages = append(packages, name+" "+version)
	}
	slices.Sort(packages)
	p.line("## Machine and versions")
	p.list([][2]string{
		{"CPU", fmt.Sprintf("%s, %d cores%s, %s", m.CPU, m.Cores, kind, m.Architecture)},
		{"memory", fmt.Sprintf("%.0f GiB", m.MemoryGiB)},
		{"kernel", "Linux " + m.Kernel},
		{"first touch of a page", fmt.Sprintf("%.2f us", m.FaultMicroseconds)},
		{"idle", r.idleness()},
		{"glovebox", r.Program},
		{"image", fmt.Sprintf("%s %s, Python %s, %s", r.Image.Name, shortDigest(r.Image.Digest), r.Image.Python, strings.Join(packages, ", "))},
		{"server", r.Server},
	})
}

// list writes named points.
func (p *page) list(items [][2]string) {
	for _, item := range items {
		p.line("- %s: %s", item[0], item[1])
	}
	p.line("")
}

// idleness sums up the conditions of all scenarios.
func (r *Report) idleness() string {
	var busy []string
	measured := 0
	for _, s := range r.Scenarios {
		if s.Conditions == nil {
			continue
		}
		measured++
		if !s.Conditions.Idle() {
			busy = append(busy, fmt.Sprintf("%s (%.2f)", s.Name, s.Conditions.Others+s.Conditions.Stolen))
		}
	}
	switch {
	case measured == 0:
		return "nothing was measured"
	case len(busy) == 0:
		return fmt.Sprintf("yes: other work took less than %g of a processor during every scenario", mostIdle)
	}
	return "NO: other work took processors during " + strings.Join(busy, ", ")
}

func (r *Report) peers(p *page) {
	if len(r.Peers) == 0 {
		return
	}
	p.line("## Peers")
	var items [][2]string
	for _, peer := range r.Peers {
		text := strings.TrimPrefix(peer.Version+": "+peer.Flags, ": ")
		if peer.Missing != "" {
			text = "**not measured**: " + peer.Missing + ". To have it: " + peer.Install
		}
		items = append(items, [2]string{peer.Name, text})
	}
	p.list(items)
	p.line("All ran the same code in the same root file system, with one thread for numeric libraries, the code on standard input.\n")
}

func (s *ScenarioReport) page(p *page) {
	p.line("## %s: %s", s.Name, strings.ToLower(s.Title[:1])+s.Title[1:])
	if s.Skipped != "" {
		p.line("Skipped: %s\n", s.Skipped)
		return
	}
	if c := s.Conditions; c != nil {
		state := "idle"
		if !c.Idle() {
			state = "**busy with other work**"
		}
		p.line("Machine %s: busy %.2f with the bench, %.2f with anything else, %.2f stolen; load %.2f before, %.2f after; %.0f s.\n",
			state, c.Own, c.Others, c.Stolen, c.LoadBefore, c.LoadAfter, c.Seconds)
	}
	s.rowTable(p)
	s.figureTable(p)
	for _, note := range s.Notes {
		p.line("- %s", note)
	}
	if len(s.Notes) > 0 {
		p.line("")
	}
}

func (s *ScenarioReport) rowTable(p *page) {
	if len(s.Rows) == 0 {
		return
	}
	var rows [][]string
	for i, row := range s.Rows {
		if i > 0 && sameTimes(s.Rows[i-1], row) {
			rows[len(rows)-1][3] = metricResult + " = " + row.Metric
			continue
		}
		faults := ""
		if row.Faults != nil {
			faults = strconv.FormatFloat(*row.Faults, 'f', 0, 64)
		}
		bad := strconv.Itoa(row.Errors)
		if row.Rejected > 0 {
			bad += fmt.Sprintf(", 429: %d", row.Rejected)
		}
		line := []string{row.Work, row.Subject, row.Mode, row.Metric, strconv.Itoa(row.N)}
		for _, value := range []float64{row.Min, row.P50, row.Mean, row.P95, row.P99} {
			line = append(line, number(value))
		}
		rows = append(rows, append(line, bad, faults))
		if row.FirstError != "" {
			s.note("%s, %s: the first error: %s", row.Work, row.Subject, strings.Join(strings.Fields(row.FirstError), " "))
		}
	}
	s.Notes = slices.Compact(s.Notes)
	p.table([]string{"work", "subject", "mode", "metric", "n", "min", "p50", "mean", "p95", "p99", "errors", "faults"}, rows)
}

// sameTimes reports whether two rows are of the same runs and show the same: for most programs the end comes with the
// result.
func sameTimes(a, b Row) bool {
	shown := func(r Row) string {
		return fmt.Sprint(r.Subject, r.Work, r.Mode, r.N, number(r.Min), number(r.P50), number(r.Mean), number(r.P95), number(r.P99))
	}
	return a.Metric == metricResult && b.Metric == metricEnd && shown(a) == shown(b)
}

func (s *ScenarioReport) figureTable(p *page) {
	if len(s.Figures) == 0 {
		return
	}
	var rows [][]string
	for _, f := range s.Figures {
		rows = append(rows, []string{f.Work, f.Subject, f.Metric, number(f.Value) + " " + f.Unit})
	}
	p.table([]string{"work", "subject", "figure", "value"}, rows)
}

// number writes three digits that mean something.
func number(value float64) string {
	switch size := max(value, -value); {
	case value == 0:
		return "0"
	case size >= 100 || value == float64(int64(value)):
		return strconv.FormatFloat(value, 'f', 0, 64)
	case size >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}

// table writes columns of equal width.
func (p *page) table(head []string, rows [][]string) {
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, rows...) {
		for i := range row {
			row[i] = strings.NewReplacer("|", "\\|", "\n", " ").Replace(row[i])
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]), 3)
		}
	}
	write := func(row []string) {
		for i, cell := range row {
			p.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + " ")
		}
		p.line("|")
	}
	write(head)
	dashes := make([]string, len(head))
	for i := range dashes {
		dashes[i] = strings.Repeat("-", widths[i])
	}
	write(dashes)
	for _, row := range rows {
		write(row)
	}
	p.line("")
}

// unmeasured says what this page has no figures for.
func (r *Report) unmeasured(p *page) {
	p.line("## Not measured here")
	for _, s := range r.Scenarios {
		if s.Skipped != "" {
			p.line("- %s: %s", s.Name, s.Skipped)
		}
	}
	for _, name := range ScenarioNames() {
		if !slices.ContainsFunc(r.Scenarios, func(s *ScenarioReport) bool { return s.Name == name }) {
			p.line("- %s: not asked for.", name)
		}
	}
	for _, peer := range Peers() {
		if !slices.ContainsFunc(r.Peers, func(p PeerInfo) bool { return p.Name == peer.Name }) {
			p.line("- the peer %s: not asked for (`--vs %s`).", peer.Name, peer.Name)
		}
	}
	p.line("- A pool that is empty, over HTTP and without a crowd; in process it is, see fresh.")
	p.line("- Hours of load, and what they do to the server's memory, descriptors, control groups and mounts.")
	p.line("- Other backends than the default one, networks, uploads and large outputs.")
	p.line("- Other hardware: the cost of a page fault, above, moves most of these figures.")
}
