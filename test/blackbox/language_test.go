// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
)

// in says the language of a run.
func in(language string, more ...call) call {
	c := call{"language": language}
	for _, fields := range more {
		maps.Copy(c, fields)
	}
	return c
}

// TestLanguagesRun: one run of each language: text in both streams and any script, a result, values in and out, files.
func TestLanguagesRun(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for language, code := range map[string]string{
		"javascript": `import fs from 'node:fs'
console.log('é漢🙂'); console.error('problem')
fs.writeFileSync('out.txt', 'written'); const back = await Promise.resolve(n + 1)`,
		"ts": `import fs from 'node:fs'
const text: string = 'é漢🙂'; console.log(text); console.error('problem')
fs.writeFileSync('out.txt', 'written'); const back: number = await Promise.resolve(n + 1)`,
		"bash": "echo é漢🙂; echo problem >&2; printf written > out.txt; back=$((n + 1))",
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code, in(language, call{"inputs": call{"n": 41}, "return": []string{"back"}}))
			x.says(t, "é漢🙂")
			if strings.TrimSpace(x.Stderr) != "problem" {
				t.Errorf("stderr %q", x.Stderr)
			}
			if got := x.Values["back"].plain(); got != "42" {
				t.Errorf("back is %q", got)
			}
			if f := x.artifact("out.txt"); f == nil || f.Size != 7 {
				t.Errorf("artifacts %v", x.Artifacts)
			}
		})
	}
}

// TestLanguagesEnd: each way a run can end, by its status and exit code.
func TestLanguagesEnd(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for name, c := range map[string]struct {
		language, code, status string
		exit                   int
	}{
		"throws":             {"javascript", "\nthrow new TypeError('boom')", "error", 1},
		"rejects":            {"javascript", "void Promise.reject(new Error('boom'))", "error", 1},
		"throws later":       {"javascript", "setTimeout(() => { throw new Error('boom') }, 5)", "error", 1},
		"exits":              {"javascript", "console.log('a'); process.exit(3)", "exit", 3},
		"exit code":          {"javascript", "process.exitCode = 5", "exit", 5},
		"aborts":             {"javascript", "process.abort()", "signal", 134},
		"spins":              {"javascript", "while (true) {}", "wall_timeout", 137},
		"waits":              {"javascript", "setInterval(() => {}, 100)", "wall_timeout", 137},
		"starves":            {"javascript", "(function loop() { Promise.resolve().then(loop) })()", "wall_timeout", 137},
		"heap":               {"javascript", "const a = []; while (true) a.push(new Array(1e5).fill(Math.random()))", "out_of_memory", 137},
		"buffers":            {"javascript", "const a = []; while (true) a.push(Buffer.alloc(16 << 20, 1))", "out_of_memory", 137},
		"strings":            {"javascript", "const a = []; while (true) a.push(Buffer.alloc(1 << 20, 'x').toString() + a.length)", "out_of_memory", 137},
		"does not parse":     {"typescript", "const x: number = ;", "error", 1},
		"throws in ts":       {"typescript", "const f = (x: number): never => { throw new RangeError(`${x}`) }; f(1)", "error", 1},
		"bash fails":         {"bash", "exit 3", "exit", 3},
		"bash's last":        {"bash", "true; false", "exit", 1},
		"bash not found":     {"bash", "nosuchcommand", "exit", 127},
		"bash signal":        {"bash", "kill -SEGV $$", "signal", 139},
		"bash spins":         {"bash", "while :; do :; done", "wall_timeout", 137},
		"bash out of memory": {"bash", "x=$(head -c 100000000 /dev/zero | tr '\\0' x); while :; do x=$x$x; done", "out_of_memory", 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, c.code, in(c.language, within(map[bool]float64{true: 4, false: 60}[c.status == "wall_timeout"])))
			if x.Status != c.status || x.ExitCode != c.exit {
				t.Errorf("status %s, exit code %d, want %s %d: %s %v %.500s", x.Status, x.ExitCode, c.status, c.exit, x.Message, x.Error, x.Stderr)
			}
			if c.status == "error" && (x.Error == nil || x.Error.Traceback == "" || strings.Contains(x.Error.Traceback, "/usr/lib/glovebox")) {
				t.Errorf("error %+v", x.Error)
			}
		})
	}
}

// TestLanguageSessions: state stays from cell to cell, after an error and after a limit of time; what ends the interpreter
// says that the state is gone, and the next cell runs.
func TestLanguageSessions(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for language, c := range map[string]struct{ set, show, fail, spin, exit string }{
		"javascript": {"let v = 41; const f = () => v + 1", "console.log(f())", "null.x", "while (true) {}", "process.exit(3)"},
		"typescript": {"let v: number = 41; const f = (): number => v + 1", "console.log(f())", "null!.x", "await 1; while (true) {}", "process.exit(3)"},
		"bash":       {"v=41; f() { echo $((v + 1)); }", "f", "nosuchcommand", "while :; do :; done", "exit 3"},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			n := s.open(t, in(language))
			n.cell(t, c.set).ok(t)
			n.cell(t, c.show).says(t, "42")
			if x := n.cell(t, c.fail); x.Status != "error" && x.Status != "exit" || x.Reset {
				t.Errorf("a failure: %s, reset %v", x.Status, x.Reset)
			}
			if x := n.cell(t, c.spin, within(3)); x.Status != "wall_timeout" || x.Reset {
				t.Errorf("without end: %s, reset %v", x.Status, x.Reset)
			}
			n.cell(t, c.show).says(t, "42")
			if x := n.cell(t, c.exit); x.Status != "exit" || x.ExitCode != 3 || !x.Reset {
				t.Errorf("an exit: %s %d, reset %v", x.Status, x.ExitCode, x.Reset)
			}
			if x := n.cell(t, c.show); x.Status == "ok" {
				t.Errorf("the state outlived the interpreter: %q", x.Stdout)
			}
			n.cell(t, c.set).ok(t)
			n.cell(t, c.show).says(t, "42")
		})
	}
}

// TestLanguageOutputIsBounded: a flood is cut and ends nothing.
func TestLanguageOutputIsBounded(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	for language, code := range map[string]string{
		"javascript": "for (let i = 0; i < 300; i++) console.log('x'.repeat(99999))",
		"bash":       "head -c 30000000 /dev/zero | tr '\\0' x",
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			x := s.run(t, code, in(language, within(60))).ok(t)
			if x.Output.Stdout.Bytes != 30_000_000 || !x.Truncated {
				t.Errorf("%d bytes, truncated %v", x.Output.Stdout.Bytes, x.Truncated)
			}
		})
	}
}

// TestLanguagesAreRefusedClearly: an unknown language, another one for a cell than the sandbox's, and a fork of what cannot
// be forked.
func TestLanguagesAreRefusedClearly(t *testing.T) {
	t.Parallel()
	s := theServer(t)
	if _, text := s.post(t, call{"code": "1", "language": "cobol"}).problem(t); !strings.Contains(text, "cobol") {
		t.Errorf("an unknown language: %q", text)
	}
	few := call{"code": "1", "language": "js", "limits": call{"processes": 4}}
	if a := s.post(t, few); a.status != http.StatusBadRequest && a.status != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "javascript needs at least") {
		t.Errorf("too few processes: %d %s", a.status, a.body)
	}
	n := s.open(t, in("javascript"))
	post := func(path, body string) string {
		_, text := s.do(t, http.MethodPost, "/v1/sandboxes/"+n.id+path, "application/json", strings.NewReader(body)).problem(t)
		return text
	}
	if text := post("/execute", `{"code":"print(1)","language":"python"}`); !strings.Contains(text, "language") {
		t.Errorf("another language: %q", text)
	}
	if text := post("/fork", `{}`); !strings.Contains(text, "javascript") {
		t.Errorf("a fork: %q", text)
	}
	n.cell(t, "console.log('alive')").says(t, "alive")
}
