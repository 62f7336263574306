// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cellAnswer is what a cell shows, without what differs from run to run.
type cellAnswer struct {
	Stdout string  `json:"stdout"`
	Stderr string  `json:"stderr"`
	Shown  []shown `json:"shown"`
	Error  *struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"error"`
}

type shown struct {
	Kind  string   `json:"kind"`
	Types []string `json:"types"`
	Text  string   `json:"text"`
}

// differences are the cells that answer otherwise than Jupyter's, each with the reason; docs/notebook.md tells them to users.
func differences() map[string]string {
	return map[string]string{
		"many numbers":        "long lists are filled to 79 columns",
		"syntax error":        "the message is CPython's, which names the bracket",
		"unknown magic":       "it is an error of the cell, not a line on stderr",
		"broken repr":         "a repr that raises becomes text, and no error of the cell",
		"series":              "its last line tells the length of every Series",
		"groupby":             "its last line tells the length of every Series",
		"styler":              "its text is that of the data",
		"figure without axes": "empty figures are not shown",
		"picture":             "a picture comes as PNG alone",
		"input":               "the message says what to do instead",
		"ordered":             "Python's own repr",
		"shell command":       "there is no terminal, so lines end as the command ends them",
		"shell error":         "there is no terminal, so lines end as the command ends them",
		"question mark":       "there is no pager: it is printed",
		"system exit":         "an ending of its own, and no error",
	}
}

var (
	colours   = regexp.MustCompile(`\x1b\[[0-9;]*m`)
	addresses = regexp.MustCompile(`0x[0-9a-f]+`)
	cellNames = regexp.MustCompile(`\bscript\.py( \(\d+\))?|\b\d{6,}\.py`)
	times     = regexp.MustCompile(`\d+(\.\d+)?(e[+-]?\d+)? (ns|μs|µs|ms|s)\b`)
)

func normal(text string) string {
	text = cellNames.ReplaceAllString(colours.ReplaceAllString(text, ""), "<cell>")
	text = times.ReplaceAllString(text, "0 s")
	return addresses.ReplaceAllString(text, "0x0")
}

// notebookCells reads testdata/notebook.txt.
func notebookCells(t *testing.T) (names, codes []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/notebook.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split("\n"+string(text), "\n%%%% ")[1:] {
		name, code, _ := strings.Cut(part, "\n")
		names, codes = append(names, name), append(codes, strings.TrimSuffix(code, "\n"))
	}
	return names, codes
}

// TestNotebookAnswersAsJupyterDoes: cells of many kinds, beside what a real kernel answered.
func TestNotebookAnswersAsJupyterDoes(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	content, err := os.ReadFile("testdata/jupyter.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]cellAnswer
	if err := json.Unmarshal(content, &golden); err != nil {
		t.Fatal(err)
	}
	names, codes := notebookCells(t)
	if len(names) < 50 || len(names) != len(golden) {
		t.Fatalf("%d cells, %d answers", len(names), len(golden))
	}
	n := s.open(t, call{"limits": call{"memory": "1GiB"}})
	known := differences()
	for i, name := range names {
		theirs := golden[name]
		ours := answerOf(t, s.events(t, "/v1/sandboxes/"+n.id+"/execute", call{"code": codes[i], "limits": call{"wall": 60}}))
		diff := cmp.Diff(comparable(theirs), comparable(ours))
		for j := range min(len(theirs.Shown), len(ours.Shown)) {
			if missing := without(theirs.Shown[j].Types, ours.Shown[j].Types); len(missing) > 0 {
				diff += "Jupyter also has " + strings.Join(missing, " ")
			}
		}
		reason, expected := known[name]
		switch {
		case diff != "" && !expected:
			t.Errorf("%s differs from Jupyter's answer (-Jupyter, +ours):\n%s%s", name, codes[i], diff)
		case diff == "" && expected:
			t.Errorf("%s no longer differs (%s): take it from the list", name, reason)
		}
		delete(known, name)
	}
	for name := range known {
		t.Errorf("there is no cell %q", name)
	}
}

func answerOf(t *testing.T, all events) (a cellAnswer) {
	t.Helper()
	a.Stdout, a.Stderr = all.text(t, "stdout"), normal(all.text(t, "stderr"))
	for _, e := range all {
		switch e.name {
		case "display", "result":
			var b struct{ Data bundle }
			if err := json.Unmarshal(e.data, &b); err != nil {
				t.Fatal(err)
			}
			types := keys(b.Data)
			slices.Sort(types)
			a.Shown = append(a.Shown, shown{e.name, types, normal(b.Data.plain())})
		case "error":
			if err := json.Unmarshal(e.data, &a.Error); err != nil {
				t.Fatal(err)
			}
			a.Error.Value = normal(a.Error.Value)
		}
	}
	return a
}

// comparable leaves out the types, which are compared as sets, and the text of what has a richer form.
func comparable(a cellAnswer) cellAnswer {
	a.Stdout, a.Stderr = normal(a.Stdout), normal(a.Stderr)
	if a.Error != nil {
		fault := *a.Error
		fault.Value = normal(fault.Value)
		a.Error = &fault
	}
	list := []shown{}
	for _, one := range a.Shown {
		if slices.ContainsFunc(one.Types, func(kind string) bool { return strings.HasPrefix(kind, "image/png") }) {
			one.Text = "" // a line about the figure
		}
		if one.Text != "" && slices.Contains(one.Types, "text/html") {
			one.Text, _, _ = strings.Cut(one.Text, "\n\n[") // a table ends with a line about its columns
		}
		one.Types = nil
		list = append(list, one)
	}
	a.Shown = list
	return a
}

func without(list, other []string) (missing []string) {
	for _, one := range list {
		if !slices.Contains(other, one) {
			missing = append(missing, one)
		}
	}
	return missing
}
