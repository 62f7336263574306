// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Report is all that one call of Run found.
type Report struct {
	Version   int               `json:"version"`
	Date      time.Time         `json:"date"`
	Short     bool              `json:"short"`
	Machine   Machine           `json:"machine"`
	Program   string            `json:"glovebox"`
	Image     ImageInfo         `json:"image"`
	Server    string            `json:"server"`
	Peers     []PeerInfo        `json:"peers"`
	Scenarios []*ScenarioReport `json:"scenarios"`
}

// reportVersion changes when a field changes its meaning.
const reportVersion = 1

// ImageInfo says what all subjects ran in.
type ImageInfo struct {
	Name     string            `json:"name"`
	Digest   string            `json:"digest"`
	Python   string            `json:"python"`
	Packages map[string]string `json:"packages"`
}

// PeerInfo is a peer that was asked for.
type PeerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Flags   string `json:"flags,omitempty"`
	// Missing says why it was not measured, and Install how to get it.
	Missing string `json:"missing,omitempty"`
	Install string `json:"install,omitempty"`
}

// ScenarioReport is what one scenario found.
type ScenarioReport struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Skipped says why there is nothing.
	Skipped    string      `json:"skipped,omitempty"`
	Conditions *Conditions `json:"conditions,omitempty"`
	Rows       []Row       `json:"rows"`
	Figures    []Figure    `json:"figures"`
	Notes      []string    `json:"notes"`
	// ready are the figures about the pool, until they find their place among the others.
	ready []Figure
}

// Figure is a single number.
type Figure struct {
	Subject string  `json:"subject"`
	Work    string  `json:"work"`
	Metric  string  `json:"metric"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
}

func (s *ScenarioReport) add(rows ...Row) { s.Rows = append(s.Rows, rows...) }

func (s *ScenarioReport) note(format string, values ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, values...))
}

func (s *ScenarioReport) find(subject, work, metric string) Row {
	for _, row := range s.Rows {
		if row.Subject == subject && row.Work == work && row.Metric == metric {
			return row
		}
	}
	return Row{}
}

// check finds what produced nothing at all: then the scenario has not been measured.
func (s *ScenarioReport) check() error {
	for _, row := range s.Rows {
		if row.N == 0 && row.Rejected == 0 {
			return fmt.Errorf("no run of %s by %s succeeded: %s", row.Work, row.Subject, row.FirstError)
		}
	}
	return nil
}

func (r *run) newReport() (*Report, error) {
	machine, err := describeMachine()
	if err != nil {
		return nil, err
	}
	report := &Report{
		Version: reportVersion, Date: r.Now().UTC(), Short: r.Short, Machine: machine, Program: ownVersion(),
		Image:  ImageInfo{Name: r.image.Name, Digest: r.image.Digest, Python: r.image.PythonVersion, Packages: map[string]string{}},
		Server: "started by the bench, with a data folder of its own", Peers: []PeerInfo{},
	}
	if r.Server != "" {
		report.Server = "one that was running already"
	}
	for _, p := range r.image.Packages.Python {
		if slices.Contains([]string{"numpy", "pandas", "matplotlib"}, p.Name) {
			report.Image.Packages[p.Name] = p.Version
		}
	}
	return report, nil
}

// present notes a peer that is measured.
func (r *Report) present(peer Peer, version string) {
	r.peer(PeerInfo{Name: peer.Name, Version: version, Flags: peer.Flags})
}

// missing notes a peer that is not there.
func (r *Report) missing(name, why, install string) {
	r.peer(PeerInfo{Name: name, Missing: why, Install: install})
}

func (r *Report) peer(info PeerInfo) {
	if !slices.ContainsFunc(r.Peers, func(p PeerInfo) bool { return p.Name == info.Name }) {
		r.Peers = append(r.Peers, info)
	}
}

// Errors counts the runs that went wrong.
func (r *Report) Errors() (n int) {
	for _, s := range r.Scenarios {
		for _, row := range s.Rows {
			n += row.Errors
		}
	}
	return n
}

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}
