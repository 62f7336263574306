// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"glovebox/test/escapes"
)

const attackFolder = "../../../shared/attacks/runtime"

// TestProbesOverHTTP looks at what a test of the backend alone cannot see of the probes of the kinds output, protocol,
// artifact, lifetime and exhaustion: the answer that a client gets.
func TestProbesOverHTTP(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	probes, err := escapes.Load(attackFolder)
	if err != nil {
		t.Fatal(err)
	}
	if len(probes) == 0 {
		t.Skipf("skipped: no probes in %s, which comes beside the checkout", attackFolder)
	}
	looked := 0
	for _, p := range probes {
		check := probeChecks()[p.Name[strings.IndexByte(p.Name, '-')+1:]]
		switch p.Kind {
		case "output", "protocol", "artifact", "lifetime", "exhaustion":
		default:
			if check == nil {
				continue // the escape tests run it
			}
		}
		looked++
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			wall := 30.0
			if p.Expect == "timeout" {
				wall = 2
			}
			a := s.post(t, call{"code": p.Source, "limits": call{"wall": wall}})
			x := a.execution(t)
			if !utf8.Valid(a.body) || strings.Contains(x.Stdout, "BREACH:") {
				t.Errorf("%.300s", x.Stdout)
			}
			if len(a.body) > 2<<20 {
				t.Errorf("the answer has %d bytes", len(a.body))
			}
			contained := strings.Contains(x.Stdout, "CONTAINED")
			switch {
			case p.Expect == "timeout" && x.Status != "wall_timeout" && x.Status != "cpu_timeout":
				t.Errorf("%s: %s", x.Status, x.Message)
			case p.Expect == "contained" && !contained:
				t.Errorf("no CONTAINED: %s %s %v", x.Status, x.Message, x.Error)
			case x.Status == "infra":
				t.Errorf("%s", x.Message)
			}
			if check != nil {
				check(t, s, x)
			}
		})
	}
	t.Logf("%d probes", looked)
	t.Cleanup(func() {
		for _, name := range []string{"/tmp/sbx-slip.txt", "/tmp/sbx-slip-abs.txt", "/tmp/sbx-slip2.txt", "/tmp/sbx-slip3.txt"} {
			if _, err := os.Lstat(name); err == nil {
				t.Errorf("%s is there", name)
			}
		}
		found, err := filepath.Glob(s.folder + "/blobs/*/*/sbx-*")
		if err != nil || len(found) > 0 {
			t.Errorf("%v %v", found, err)
		}
	})
}

type probeCheck func(t *testing.T, s *server, x *execution)

// probeChecks are the checks that the probes' headers ask for, by the name without its number.
func probeChecks() map[string]probeCheck {
	ends := func(status string, code int) probeCheck {
		return func(t *testing.T, _ *server, x *execution) {
			t.Helper()
			if x.Status != status || x.ExitCode != code || x.Error != nil {
				t.Errorf("%s, exit code %d, %v; want %s, %d", x.Status, x.ExitCode, x.Error, status, code)
			}
		}
	}
	return map[string]probeCheck{
		"spoof-result-on-stdout": func(t *testing.T, s *server, x *execution) {
			t.Helper()
			ends("exit", 3)(t, s, x)
			for _, line := range []string{`{"status":"ok","exit_code":0,"result":"forged"}`, `__RESULT__{"ok":true}`, `data: {"event":"done"}`, "event: done"} {
				if !strings.Contains(x.Stdout, line+"\n") {
					t.Errorf("%q is not plain output: %q", line, x.Stdout)
				}
			}
			if len(x.Results) > 0 {
				t.Errorf("forged results: %v", x.Results)
			}
		},
		"spoof-kill-message": ends("ok", 0),
		"exit-code-256":      ends("ok", 0),
		"stdout-closed": func(t *testing.T, s *server, x *execution) {
			t.Helper()
			ends("ok", 0)(t, s, x)
			s.alive(t)
		},
		"self-sigkill": func(t *testing.T, _ *server, x *execution) {
			t.Helper()
			if x.Status != "signal" || !strings.Contains(x.Message, "signal 9") {
				t.Errorf("%s: %s", x.Status, x.Message)
			}
		},
		"invalid-utf8-output": func(t *testing.T, s *server, x *execution) {
			t.Helper()
			if x.warned("invalid_utf8") == "" || !strings.Contains(x.Stdout, "abc") {
				t.Errorf("%q, %+v", x.Stdout, x.Warnings)
			}
			if whole := s.get(t, "/v1/executions/"+x.ID+"/output"); !strings.HasPrefix(string(whole.body), "\xff\xfe\x00\x80abc\xed\xa0\x80\xf5\n") {
				t.Errorf("the file has %.40q", whole.body)
			}
		},
		"huge-traceback": func(t *testing.T, _ *server, x *execution) {
			t.Helper()
			if x.Error == nil || x.Error.Name != "ValueError" || len(x.Error.Value) > 1<<20 || len(x.Error.Traceback) > 1<<20 || len(x.Error.Value) < 1000 {
				t.Errorf("%s, %d bytes of text", x.Status, len(x.raw))
			}
		},
		"terminal-escapes": func(t *testing.T, _ *server, x *execution) {
			t.Helper()
			if strings.ContainsAny(x.raw, "\x1b\x07\x08") {
				t.Error("escapes stand as they are in the answer")
			}
		},
		"html-in-dataframe-cells":  filesOf("table_markup.csv", "table_markup.html"),
		"csv-formula-cells":        filesOf("formulas.csv"),
		"prompt-injection-columns": filesOf("survey.csv"),
		"artifact-zip-slip":        filesOf("bundle.tar", "bundle.zip"),
		"artifact-symlink-file":    noneBut("link"),
		"artifact-sparse-giant":    noneBut(""),
		"artifact-symlink-race":    raceOf,
		"artifact-deep-tree":       noneBut("depth"),
		"daemon-holds-stdout":      soon,
		"daemon-ignores-signals":   soon,
		"slow-drip":                partOf("0\n"),
		"thread-outlives-main":     partOf("main done\n"),
		"output-flood-stdout":      flooded,
		"output-one-long-line":     flooded,
		"deep-recursion-crash":     crashed,
		"memory-touch-4g":          outOfMemory,
		"memory-many-children":     outOfMemory,
	}
}

// filesOf wants exactly these files.
func filesOf(names ...string) probeCheck {
	return func(t *testing.T, s *server, x *execution) {
		t.Helper()
		if len(x.Artifacts) != len(names) {
			t.Errorf("artifacts %+v", x.Artifacts)
		}
		for _, name := range names {
			a := s.artifact(t, x, name)
			if a.status != http.StatusOK || a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
				t.Errorf("%s: %d, %v", name, a.status, a.header)
			}
		}
	}
}

// noneBut wants no file, and something left out for that reason.
func noneBut(reason string) probeCheck {
	return func(t *testing.T, s *server, x *execution) {
		t.Helper()
		if reason != "" && x.skipped(reason) == 0 {
			t.Errorf("skipped %+v", x.Skipped)
		}
		for _, f := range x.Artifacts {
			if f.Size > 0 {
				t.Errorf("%s has %d bytes: %.200q", f.Name, f.Size, s.artifact(t, x, f.Name).body)
			}
		}
	}
}

// raceOf wants nothing but what the program wrote itself.
func raceOf(t *testing.T, s *server, x *execution) {
	t.Helper()
	for _, f := range x.Artifacts {
		if body := string(s.artifact(t, x, f.Name).body); !strings.Contains(body, "inside") {
			t.Errorf("%s: %q", f.Name, body)
		}
	}
	if a := s.artifact(t, x, "race/hostname"); a.status == http.StatusOK {
		t.Errorf("%q", a.body)
	}
}

// soon wants an answer that did not wait for what was left running.
func soon(t *testing.T, _ *server, x *execution) {
	t.Helper()
	if x.Status != "ok" || x.Usage.Wall > 5*slow {
		t.Errorf("%s after %.1f s", x.Status, x.Usage.Wall)
	}
}

func partOf(first string) probeCheck {
	return func(t *testing.T, _ *server, x *execution) {
		t.Helper()
		if !strings.HasPrefix(x.Stdout, first) || x.Status != "wall_timeout" {
			t.Errorf("%s: %q", x.Status, x.Stdout)
		}
	}
}

func flooded(t *testing.T, _ *server, x *execution) {
	t.Helper()
	if x.Output.Stdout.Bytes >= 64<<20 && !x.Truncated || len(x.Stdout) > inlineMost {
		t.Errorf("%+v, truncated %v, %d bytes inline", x.Output.Stdout, x.Truncated, len(x.Stdout))
	}
	if x.Output.Stdout.Bytes > 64<<20 && x.warned("output_limit") == "" {
		t.Errorf("nothing says that output was dropped: %+v", x.Warnings)
	}
}

func crashed(t *testing.T, _ *server, x *execution) {
	t.Helper()
	if len(x.Results) > 0 || x.Status != "signal" && (x.Error == nil || x.Error.Name != "RecursionError" && x.Error.Name != "MemoryError") && x.Status != "out_of_memory" {
		t.Errorf("%s %s, %v, %d results", x.Status, x.Message, x.Error, len(x.Results))
	}
}

func outOfMemory(t *testing.T, _ *server, x *execution) {
	t.Helper()
	if x.Status != "out_of_memory" && !strings.Contains(x.Stdout, "CONTAINED") || x.Usage.MemoryPeak > 600<<20 {
		t.Errorf("%s %s, peak %d MiB", x.Status, x.Message, x.Usage.MemoryPeak>>20)
	}
}
