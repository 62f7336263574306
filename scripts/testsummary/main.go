// SPDX-License-Identifier: Apache-2.0

// Testsummary reads the output of go test -json. It prints the line of each package as it comes, the output of each
// test that failed, and at the end every skipped test with its reason and the totals. It exits with 1 when a test or a
// package failed, or when no test ran.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// maxLine bounds a line of go test -json; a longer one is an error and not cut in silence.
const maxLine = 16 << 20

// slowest is how many of the longest tests are named.
const slowest = 10

type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

type test struct {
	pkg, name string
}

type timed struct {
	test
	took time.Duration
}

type summary struct {
	out      io.Writer
	output   map[test][]string
	skipped  []string
	broken   []string
	times    []timed
	failures map[string]bool
	passed   int
	failed   int
}

func main() {
	s := &summary{out: os.Stdout, output: make(map[test][]string), failures: make(map[string]bool)}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
	if !s.report() {
		os.Exit(1)
	}
}

func (s *summary) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Action == "" {
			s.print(lines.Text() + "\n") // what the compiler or the linker says
			continue
		}
		s.add(e)
	}
	return lines.Err()
}

func (s *summary) add(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		if e.Test == "" {
			s.packageLine(e.Output)
		} else {
			s.output[key] = append(s.output[key], e.Output)
		}
	case "build-output":
		s.print(e.Output)
	case "build-fail":
		s.failures[e.Package] = true
	case "pass", "fail", "skip":
		if e.Test != "" {
			s.end(key, e)
		} else if e.Action == "fail" {
			s.failures[e.Package] = true
		}
	}
}

// packageLine passes on what go test itself prints, less the lines that say nothing.
func (s *summary) packageLine(line string) {
	if line != "PASS\n" && !strings.HasPrefix(line, "-test.shuffle") {
		s.print(line)
	}
}

func (s *summary) end(key test, e event) {
	text := s.output[key]
	delete(s.output, key)
	switch e.Action {
	case "pass":
		s.passed++
		if !strings.Contains(key.name, "/") {
			s.times = append(s.times, timed{key, time.Duration(e.Elapsed * float64(time.Second))})
		}
	case "skip":
		s.skipped = append(s.skipped, fmt.Sprintf("%s %s: %s", key.pkg, key.name, reason(text)))
	case "fail":
		s.failed++
		s.broken = append(s.broken, key.pkg+" "+key.name)
		s.print(strings.Join(text, ""))
	}
}

// reason is what the test said before it skipped, on one line.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "--- SKIP") {
			continue
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

func (s *summary) report() bool {
	// What never ended: the test that ran when its program died or ran out of time.
	for key, text := range s.output {
		if key.name != "" && s.failures[key.pkg] {
			s.print(fmt.Sprintf("unfinished: %s %s\n%s", key.pkg, key.name, strings.Join(text, "")))
		}
	}
	slices.SortFunc(s.times, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	s.print("\nslowest tests\n")
	for _, t := range s.times[:min(slowest, len(s.times))] {
		s.print(fmt.Sprintf("  %7.2f s  %s %s\n", t.took.Seconds(), t.pkg, t.name))
	}
	s.print(fmt.Sprintf("\nskipped tests: %d\n", len(s.skipped)))
	for _, line := range s.skipped {
		s.print("  " + line + "\n")
	}
	for _, line := range s.broken {
		s.print("FAIL " + line + "\n")
	}
	for pkg := range s.failures {
		s.print("FAIL " + pkg + "\n")
	}
	s.print(fmt.Sprintf("\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skipped)))
	if s.passed == 0 {
		s.print("no test ran\n")
	}
	return s.failed == 0 && len(s.failures) == 0 && s.passed > 0
}

func (s *summary) print(text string) {
	_, _ = io.WriteString(s.out, text)
}
