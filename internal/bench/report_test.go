// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func exampleReport() *Report {
	faults := 12.4
	row := Row{
		Subject: Self, Work: "print", Mode: inTurn, Metric: metricResult, Faults: &faults,
		Summary: Summary{N: 3, Min: 0.5, P50: 12.34, P95: 456.7, P99: 456.7, Mean: 20},
	}
	end := row
	end.Metric = metricEnd
	other := row
	other.Work, other.Errors, other.FirstError = "a|b", 2, "no\nway"
	return &Report{
		Version: reportVersion, Date: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC),
		Machine: Machine{CPU: "a processor", Cores: 2, Kernel: "6.1", Hypervisor: true},
		Image:   ImageInfo{Name: "python", Digest: "sha256:0123456789abcdef"},
		Peers:   []PeerInfo{{Name: Bare, Flags: "plain"}, {Name: "bwrap", Missing: "not there", Install: "install it"}},
		Scenarios: []*ScenarioReport{
			{
				Name: "fresh", Title: "Title", Rows: []Row{row, end, other}, Conditions: &Conditions{Others: 1, Seconds: 3},
				Figures: []Figure{{Self, "print", "answered", 50, "runs"}},
			},
			{Name: "cell", Title: "Cells", Skipped: "not there yet"},
		},
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := exampleReport().WriteMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"on 2026-01-02 03:04 UTC", "a processor, 2 cores, virtual machine", "NO: other work took processors during fresh (1.00)",
		"- bwrap: **not measured**: not there. To have it: install it", "python 0123456789ab",
		"| print | glovebox | in turn | result = end | 3   | 0.50 | 12.3 | 20   | 457 | 457 | 0      | 12     |",
		`| a\|b  |`, "50 runs", "- a|b, glovebox: the first error: no way", "Skipped: not there yet", "- cold: not asked for.",
		"- the peer docker: not asked for", "**busy with other work**",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if strings.Contains(text, "the peer bwrap") {
		t.Error("a peer that was asked for is named as one that was not")
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	report := exampleReport()
	if err := report.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Errors() != 2 || report.Errors() != 2 || back.Scenarios[0].Rows[0].P50 != 12.34 {
		t.Errorf("%+v", back)
	}
	if !bytes.Contains(out.Bytes(), []byte(`"p50": 12.34`)) {
		t.Error("the summary is not part of its row")
	}
}

func TestCheckNamesWhatNeverSucceeded(t *testing.T) {
	t.Parallel()
	s := &ScenarioReport{Rows: []Row{{Subject: Bare, Work: "print", Errors: 3, FirstError: "broken"}}}
	if err := s.check(); err == nil || !strings.Contains(err.Error(), "print by bare") || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
	s.Rows[0].Rejected = 1
	if err := s.check(); err != nil {
		t.Error(err)
	}
}
