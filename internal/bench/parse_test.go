// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseProcess(t *testing.T) {
	t.Parallel()
	p, err := parseProcess("42 (a) b (c) R 7 1 1 0 -1 4194304 100 20 3 4 11 12 13 14 20 0 1 0 99 0 0")
	want := process{pid: 42, parent: 7, treeUsage: treeUsage{cpu: 500 * time.Millisecond, faults: 127}}
	if err != nil || p != want {
		t.Errorf("%+v, %v; want %+v", p, err, want)
	}
	for _, bad := range []string{"", "1 (", "1 (x) R 2", "x (x) R 7 1 1 0 -1 4194304 100 20 3 4 11 12 13 14 20"} {
		if p, err := parseProcess(bad); err == nil {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

func TestDescends(t *testing.T) {
	t.Parallel()
	all := map[int]process{1: {pid: 1}, 5: {pid: 5, parent: 1}, 6: {pid: 6, parent: 5}, 7: {pid: 7, parent: 8}, 8: {pid: 8, parent: 7}}
	for pid, want := range map[int]bool{1: false, 5: true, 6: true, 7: false} {
		if got := descends(all, all[pid], 5); got != want {
			t.Errorf("%d beneath 5: %t", pid, got)
		}
	}
}

func TestParseProcessorTimes(t *testing.T) {
	t.Parallel()
	busy, stolen, err := parseProcessorTimes("cpu  10 20 30 1000 2000 40 50 60 10 20\n")
	if err != nil || busy != 1500*time.Millisecond || stolen != 600*time.Millisecond {
		t.Errorf("busy %v, stolen %v, %v", busy, stolen, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"} {
		if _, _, err := parseProcessorTimes(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestConditionsTellOwnWorkFromThatOfOthers(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	before := watch{at: at, load: 1, busy: 10 * time.Second, own: treeUsage{cpu: time.Second}}
	after := watch{at: at.Add(10 * time.Second), load: 2, busy: 25 * time.Second, own: treeUsage{cpu: 11 * time.Second}}
	c := before.until(after)
	if c.Own != 1 || c.Others != 0.5 || c.Idle() || c.LoadBefore != 1 || c.LoadAfter != 2 || c.Seconds != 10 {
		t.Errorf("%+v", c)
	}
	after.busy = 21 * time.Second
	if c := before.until(after); !c.Idle() {
		t.Errorf("%+v is called busy", c)
	}
}

const stream = "event: started\ndata: {\"id\":\"a\"}\n\n: alive\n\nevent: stdout\ndata: {\"text\":\"1\"}\n\n" +
	"event: stdout\ndata: {\"text\":\"\\n\"}\n\nevent: done\ndata: {\"status\":\"ok\"}\n\n"

func TestFollow(t *testing.T) {
	t.Parallel()
	clock := time.Unix(0, 0)
	now := func() time.Time { clock = clock.Add(time.Second); return clock }
	f, err := follow(strings.NewReader(stream), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.check(printWork()); err != nil {
		t.Error(err)
	}
	if f.last != time.Unix(3, 0) { // started, stdout, stdout
		t.Errorf("the last output came at %v", f.last)
	}
	for text, want := range map[string]string{
		strings.Replace(stream, `"1"`, `"2"`, 1):                    "in place of",
		strings.Replace(stream, `"ok"`, `"out_of_memory"`, 1):       "out_of_memory",
		strings.Replace(stream, "event: done", "event: x", 1):       "before its last event",
		"event: problem\ndata: {\"code\":\"internal\"}\n\n":         "gave up",
		strings.Replace(stream, "done\ndata: {", "done\ndata: ", 1): "event done",
	} {
		f, err := follow(strings.NewReader(text), now)
		if err == nil {
			err = f.check(printWork())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestFigure(t *testing.T) {
	t.Parallel()
	ms, circumstances, ok := figure("hello\nmeasured 0.25 processors 2 threads 1\n")
	if !ok || ms != 250 || circumstances != "processors 2 threads 1" {
		t.Errorf("%g, %q, %t", ms, circumstances, ok)
	}
	for _, bad := range []string{"", "measured x", "unmeasured 1"} {
		if _, _, ok := figure(bad); ok {
			t.Errorf("%q has a figure", bad)
		}
	}
}

func TestTallyKeepsErrorsOutOfThePercentiles(t *testing.T) {
	t.Parallel()
	tally := &tally{subject: "s", work: "w", mode: "m", samples: []Sample{
		{End: time.Millisecond, Faults: 10},
		{End: 3 * time.Millisecond, Faults: 20},
		{End: time.Hour, Err: errors.New("wrong"), Faults: 9999},
		{End: time.Hour, Rejected: true, Err: errors.New("429")},
	}}
	row := tally.rows()[1]
	if row.N != 2 || row.Max != 3 || row.Errors != 1 || row.Rejected != 1 || row.FirstError != "wrong" {
		t.Errorf("%+v", row)
	}
	if row.Faults == nil || *row.Faults != 15 {
		t.Errorf("faults %v", row.Faults)
	}
}

func TestRatiosAreToTheBareRunOfTheSameWork(t *testing.T) {
	t.Parallel()
	row := func(subject, work, mode string, p50 float64) Row {
		return Row{Subject: subject, Work: work, Mode: mode, Metric: metricEnd, Summary: Summary{N: 1, P50: p50}}
	}
	figures := ratios([]Row{
		row(Self, "a", inTurn, 30), row(Bare, "a", inTurn, 20), row(Self, "b", inTurn, 30), row(Self, "a", "open loop", 99),
	}, metricEnd)
	if len(figures) != 2 || figures[0].Value != 1.5 || figures[1].Value != 10 {
		t.Errorf("%+v", figures)
	}
}
