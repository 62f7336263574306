// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// inTurn is the mode in which each run begins when the one before is over, whoever it is of, and nothing is left of it.
const inTurn = "in turn"

// compare lets subjects take turns with each work and returns their tallies, by work and then by subject.
func (r *run) compare(ctx context.Context, works []Work, subjects []Subject, rounds int) ([][]*tally, error) {
	var all [][]*tally
	for _, work := range works {
		var names []string
		tallies := make([]*tally, len(subjects))
		for i, s := range subjects {
			tallies[i] = &tally{subject: s.Name(), work: work.Name, mode: inTurn}
			names = append(names, s.Name())
			r.counted(ctx, s, work) // the first run reads files that later ones find in memory
		}
		r.say("  %s, %d runs each: %s", work.Name, rounds, strings.Join(names, ", "))
		runOne := func(ctx context.Context, i int) Sample { return r.counted(ctx, subjects[i], work) }
		if err := takeTurns(ctx, rounds, len(subjects), runOne, func(i int, s Sample) { tallies[i].add(s) }); err != nil {
			return nil, err
		}
		all = append(all, tallies)
	}
	return all, nil
}

// settle waits until the server rests: it may make the next sandboxes ready after it has answered, which belongs to its
// own turn and not to that of the next subject.
func (r *run) settle(ctx context.Context) {
	const most, pause, calm = 3 * time.Second, 25 * time.Millisecond, 3
	if r.own == nil {
		return
	}
	var last time.Duration
	for began, quiet := r.Now(), 0; quiet < calm && r.Now().Sub(began) < most; {
		usage, err := usageOf(r.own.pid)
		if err != nil || !sleepUntil(ctx, r.Now, r.Now().Add(pause)) {
			return
		}
		if quiet++; usage.cpu != last {
			quiet, last = 0, usage.cpu
		}
	}
}

// counted runs once, alone, so that the server's faults until it rests are those of this run.
func (r *run) counted(ctx context.Context, subject Subject, work Work) Sample {
	if _, remote := subject.(*client); !remote {
		return subject.Run(ctx, work, r.Now())
	}
	before, known := r.serverFaults()
	s := subject.Run(ctx, work, r.Now())
	r.settle(ctx)
	if after, still := r.serverFaults(); known && still {
		s.Faults = after - before
	}
	return s
}

// ratios compares the medians of a metric with the bare ones.
func ratios(rows []Row, metric string) []Figure {
	bare := make(map[string]float64)
	for _, row := range rows {
		if row.Subject == Bare && row.Metric == metric && row.Mode == inTurn {
			bare[row.Work] = row.P50
		}
	}
	var figures []Figure
	for _, row := range rows {
		base := bare[row.Work]
		if row.Subject == Bare || row.Metric != metric || row.Mode != inTurn || base == 0 || row.N == 0 {
			continue
		}
		figures = append(figures,
			Figure{row.Subject, row.Work, "p50 " + metric + " relative to bare", row.P50 / base, "x"},
			Figure{row.Subject, row.Work, "p50 " + metric + " above bare", row.P50 - base, "ms"})
	}
	return figures
}

// selfProcess is this program as a process for each run.
func (r *run) selfProcess() *program {
	return &program{
		name: "glovebox run", now: r.Now, countsFaults: true,
		args:   r.arguments(r.folder, "run", "--no-server", "--image", r.Config.Image, "--timeout", r.wall().String(), "-"),
		change: func(c *exec.Cmd) { c.Env = r.variables() },
	}
}

// coldFactor and coldExtra are how much slower than the bare interpreter a cold run may be: 1.15 times and 100 ms.
const (
	coldFactor = 1.15
	coldExtra  = 100
)

func (r *run) cold(ctx context.Context, report *ScenarioReport) error {
	subjects := append([]Subject{r.selfProcess()}, r.versus(ctx, Bare)...)
	tallies, err := r.compare(ctx, r.works(printWork(), groupbyWork()), subjects, r.samples(20, 2))
	if err != nil {
		return err
	}
	for _, group := range tallies {
		for _, t := range group {
			report.add(t.rows()...)
		}
	}
	report.Figures = ratios(report.Rows, metricEnd)
	for _, figure := range report.Figures {
		if figure.Subject != subjects[0].Name() || figure.Unit != "ms" {
			continue
		}
		bare := report.find(Bare, figure.Work, metricEnd).P50
		over := figure.Value - (coldFactor-1)*bare
		verdict := "within"
		if over > coldExtra {
			verdict = "NOT within"
		}
		report.note("%s: %.0f ms above %.2f times the bare interpreter: %s the %d ms that are the goal.",
			figure.Work, over, coldFactor, verdict, coldExtra)
	}
	return nil
}

func (r *run) fresh(ctx context.Context, report *ScenarioReport) (err error) {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	subjects := append([]Subject{c}, r.versus(ctx)...)
	works := r.works(printWork(), groupbyWork())
	for _, work := range works {
		c.Run(ctx, work, r.Now())
		r.settle(ctx)
		t := r.offered(ctx, c, work)
		report.add(t.rows()...)
		report.ready = append(report.ready, t.readiness()...)
	}
	tallies, err := r.compare(ctx, works, subjects, r.samples(20, 2))
	if err != nil {
		return err
	}
	for _, group := range tallies {
		report.ready = append(report.ready, group[0].readiness()...)
		for _, t := range group {
			report.add(t.rows()...)
		}
	}
	report.Figures = append(ratios(report.Rows, metricResult), report.ready...)
	return r.poolEmpty(ctx, works, report)
}

// offered runs an open loop.
func (r *run) offered(ctx context.Context, c *client, work Work) *tally {
	const mostAtOnce = 1000
	r.say("  %s, %g a second for %s", work.Name, r.Rate, r.Duration)
	t := &tally{subject: c.Name(), work: work.Name, mode: fmt.Sprintf("open loop, %g/s for %s", r.Rate, r.Duration)}
	before, known := r.serverFaults()
	t.samples = openLoop(ctx, r.Now, r.Rate, r.Duration, mostAtOnce, func(ctx context.Context, began time.Time) Sample {
		return c.Run(ctx, work, began)
	})
	r.settle(ctx)
	if after, still := r.serverFaults(); known && still && len(t.samples) > 0 {
		mean := float64(after-before) / float64(len(t.samples))
		t.faults = &mean
	}
	return t
}

func (r *run) chart(ctx context.Context, report *ScenarioReport) (err error) {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	subjects := append([]Subject{c}, r.versus(ctx)...)
	tallies, err := r.compare(ctx, []Work{chartWork()}, subjects, r.samples(10, 1))
	if err != nil {
		return err
	}
	for _, t := range tallies[0] {
		report.add(t.rows()...)
	}
	report.Figures = append(ratios(report.Rows, metricResult), tallies[0][0].readiness()...)
	return nil
}

func (r *run) burst(ctx context.Context, report *ScenarioReport) (err error) {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, work := range r.works(groupbyWork()) {
		c.Run(ctx, work, r.Now())
		r.settle(ctx)
		r.say("  %s, %d at once", work.Name, r.Burst)
		t := &tally{subject: c.Name(), work: work.Name, mode: fmt.Sprintf("%d at once", r.Burst)}
		var took time.Duration
		t.samples, took = atOnce(ctx, r.Now, r.Burst, func(ctx context.Context, began time.Time) Sample { return c.Run(ctx, work, began) })
		rows := t.rows()
		report.add(rows...)
		report.Figures = append(report.Figures, t.readiness()...)
		report.Figures = append(report.Figures,
			Figure{c.Name(), work.Name, "answered with the right result", float64(rows[0].N), "runs"},
			Figure{c.Name(), work.Name, "answered 429", float64(rows[0].Rejected), "runs"},
			Figure{c.Name(), work.Name, "until the last answer", took.Seconds(), "s"})
	}
	return nil
}

func (r *run) overhead(ctx context.Context, report *ScenarioReport) (err error) {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	subjects := append([]Subject{c}, r.versus(ctx, Bare)...)
	rounds := 4
	if r.Short {
		rounds = 1
	}
	tallies, err := r.compare(ctx, overheadWorks(rounds), subjects, r.samples(8, 1))
	if err != nil {
		return err
	}
	for _, group := range tallies {
		seen := make(map[string]string)
		for _, t := range group {
			report.add(t.row(metricCompute, func(s Sample) (float64, bool) {
				ms, circumstances, ok := figure(s.Output)
				seen[t.subject] = circumstances
				return ms, ok
			}))
		}
		for subject, circumstances := range seen {
			if seen[Bare] != "" && circumstances != seen[Bare] {
				report.note("%s, %s: %s, but bare: %s: not a fair comparison.", subject, group[0].work, circumstances, seen[Bare])
			}
		}
	}
	for _, f := range ratios(report.Rows, metricCompute) {
		if f.Unit == "x" {
			f.Metric, f.Value, f.Unit = "compute, p50, above bare", (f.Value-1)*100, "%"
			report.Figures = append(report.Figures, f)
		}
	}
	report.note("A program measures itself: the best of %d rounds in one process.", rounds)
	return nil
}
