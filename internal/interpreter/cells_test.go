// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"glovebox/internal/guest/wire"
	"glovebox/internal/interpreter"
)

// TestCells runs testdata/cells/*.txt. Each file is one session:
//
//	-- cell --                     code follows; "-- cell {...} --" adds fields of wire.Cell;
//	                               "-- cell interrupt --" sends SIGINT when the cell prints "READY"
//	-- want --                     what the cell must send, a line each, in order
//	-- end --                      how the process ends, and what came by its pipes
//
// A wanted line is a rendered line (see render), where … stands for anything; alone it stands for all that follows. Lines that begin with "!" must match
// nothing. Of the forms of a value and the lines of a traceback (they are indented) only the wanted ones are compared.
func TestCells(t *testing.T) {
	t.Parallel()
	runAll(t, "*.txt", nil)
}

// TestCellsAfterFork runs the sessions that preloading could change in a fork of a process that preloaded.
func TestCellsAfterFork(t *testing.T) {
	t.Parallel()
	runAll(t, "[cltv]*.txt", []string{"/usr/bin/python3", "-I", "-B", "-X", "utf8", "-c", zygote})
}

// zygote does what a zygote does: it warms up, checks that it may fork, and serves a session in a child.
const zygote = `
import os, sys
sys.path.insert(0, "/usr/lib/glovebox/python")
from glovebox import sharing, warm
del sys.path[0]
session = warm.warm()
sharing.share()
assert "Threads:\t1\n" in open("/proc/self/status").read(), "preloading left threads behind"
child = os.fork()
if child == 0:
    warm.after_fork()
    session.channel.take_over(3)
    warm.rehearse(session)
    session._enter_folder()
    session.serve_forked()
os.close(3)
status = os.waitpid(child, 0)[1]
os._exit(os.waitstatus_to_exitcode(status))
`

// TestCellsOfLanguages runs the sessions of the languages besides Python: testdata/LANGUAGE/*.txt.
func TestCellsOfLanguages(t *testing.T) {
	t.Parallel()
	for _, language := range interpreter.Languages() {
		if language.Name != "python" {
			t.Run(language.Name, func(t *testing.T) { runAll(t, "../"+language.Name+"/*.txt", language.Args) })
		}
	}
}

func runAll(t *testing.T, files string, args []string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/cells/" + files)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cells: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			runCells(t, string(text), args)
		})
	}
}

var heading = regexp.MustCompile(`(?m)^-- (cell|want|end)( .*)? --\n`)

func runCells(t *testing.T, text string, args []string) {
	t.Helper()
	var s *session
	var got []string
	marks := heading.FindAllStringSubmatchIndex(text, -1)
	for i, mark := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		kind, body := text[mark[2]:mark[3]], text[mark[1]:end]
		option := ""
		if mark[4] >= 0 {
			option = strings.TrimSpace(text[mark[4]:mark[5]])
		}
		if s == nil {
			s = start(t, args)
		}
		line := 1 + strings.Count(text[:mark[0]], "\n")
		switch kind {
		case "cell":
			got = s.cell(body, option)
		case "want":
			compare(t, line, body, got)
		case "end":
			state := s.wait()
			compare(t, line, body, append([]string{state}, splitLines(s.pipes.String())...))
		}
	}
}

func (s *session) cell(code, option string) []string {
	s.t.Helper()
	cell := wire.Cell{Code: strings.TrimSuffix(code, "\n"), Name: fmt.Sprintf("cell %d", s.next+1)}
	if strings.HasPrefix(option, "{") {
		if err := json.Unmarshal([]byte(option), &cell); err != nil {
			s.t.Fatalf("bad option %s: %v", option, err)
		}
	}
	return render(s.run(cell, func(message wire.Message) {
		if option == "interrupt" && message.Kind == wire.KindStdout && bytes.Contains(message.Payload, []byte("READY")) {
			_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGINT) // as the guest does
		}
	}))
}

// render writes messages as lines: neighbouring parts of a stream are joined, forms and tracebacks are indented.
func render(messages []wire.Message) []string {
	var lines []string
	for i := 0; i < len(messages); i++ {
		message := messages[i]
		late := ""
		if message.ID == 0 {
			late = "background "
		}
		switch message.Kind {
		case wire.KindStdout, wire.KindStderr:
			text := message.Payload
			for i+1 < len(messages) && messages[i+1].Kind == message.Kind && messages[i+1].ID == message.ID {
				i++
				text = append(text, messages[i].Payload...)
			}
			name := map[wire.Kind]string{wire.KindStdout: "stdout", wire.KindStderr: "stderr"}[message.Kind]
			lines = append(lines, late+name+" "+short(string(text)))
		case wire.KindDisplay, wire.KindResult, wire.KindValue:
			lines = append(lines, renderBundle(late, message)...)
		default:
			lines = append(lines, renderPlain(late, message)...)
		}
	}
	return lines
}

func renderBundle(late string, message wire.Message) []string {
	var value wire.Value
	if err := message.Decode(&value); err != nil {
		return []string{err.Error()}
	}
	names := map[wire.Kind]string{wire.KindDisplay: "display", wire.KindResult: "result", wire.KindValue: "value"}
	name := names[message.Kind]
	lines := []string{strings.TrimSpace(late + name + " " + value.Name)}
	for _, mime := range sortedKeys(value.Data) {
		lines = append(lines, "  "+mime+" "+renderForm(mime, value.Data[mime]))
	}
	for _, key := range sortedKeys(value.Metadata) {
		lines = append(lines, "  meta "+key+" "+string(value.Metadata[key]))
	}
	return lines
}

func renderForm(mime string, form json.RawMessage) string {
	if mime != "image/png" {
		return short(string(form))
	}
	var text string
	if err := json.Unmarshal(form, &text); err != nil {
		return err.Error()
	}
	content, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err.Error()
	}
	config, err := png.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%dx%d", config.Width, config.Height)
}

func renderPlain(late string, message wire.Message) []string {
	var fields struct {
		Name, Value, Traceback, Code, Text, Status string
		ExitCode                                   int `json:"exit_code"`
	}
	if err := message.Decode(&fields); err != nil {
		return []string{err.Error()}
	}
	switch message.Kind {
	case wire.KindError:
		lines := []string{late + "error " + fields.Name + " " + short(fields.Value)}
		for _, line := range splitLines(fields.Traceback) {
			lines = append(lines, "  | "+short(line))
		}
		return lines
	case wire.KindNotice:
		return []string{late + "notice " + fields.Code + " " + short(fields.Text)}
	case wire.KindDone:
		return []string{fmt.Sprintf("done %s %d", fields.Status, fields.ExitCode)}
	default:
		return []string{message.Kind.String()}
	}
}

// compare checks wanted lines against rendered ones.
func compare(t *testing.T, line int, want string, got []string) {
	t.Helper()
	at := 0
	for offset, wanted := range splitLines(want) {
		pattern := strings.TrimRight(wanted, " ")
		if pattern == "…" {
			return // anything may follow
		}
		if pattern == "" || strings.HasPrefix(pattern, "#") {
			continue
		}
		if absent, ok := strings.CutPrefix(pattern, "!"); ok {
			absent = strings.TrimSpace(absent)
			if slices.ContainsFunc(got, func(line string) bool { return matches(absent, strings.TrimSpace(line)) }) {
				t.Errorf("line %d: there should be nothing like %s in\n%s", line+offset+1, absent, strings.Join(got, "\n"))
			}
			continue
		}
		for at < len(got) && !matches(pattern, got[at]) && strings.HasPrefix(got[at], "  ") {
			at++
		}
		if at >= len(got) || !matches(pattern, got[at]) {
			t.Errorf("line %d: want %s in\n%s", line+offset+1, pattern, strings.Join(got, "\n"))
			return
		}
		at++
	}
	for ; at < len(got); at++ {
		if !strings.HasPrefix(got[at], "  ") {
			t.Errorf("line %d: not wanted: %s in\n%s", line, got[at], strings.Join(got, "\n"))
			return
		}
	}
}

func matches(pattern, line string) bool {
	expression := strings.ReplaceAll(regexp.QuoteMeta(pattern), "…", ".*")
	return regexp.MustCompile(`(?s)\A` + expression + `\z`).MatchString(strings.TrimRight(line, " "))
}

// short writes a text on one line, and its middle as a count when it is long.
func short(text string) string {
	text = strings.NewReplacer("\n", `\n`, "\r", `\r`, "\x00", `\0`).Replace(text)
	if len(text) > 20_000 {
		return fmt.Sprintf("%s<%d bytes>%s", text[:100], len(text), text[len(text)-100:])
	}
	return text
}

func splitLines(text string) []string {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
