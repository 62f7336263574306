// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"glovebox/internal/engine"
	"glovebox/internal/interpreter"
)

// errCleared says that Ctrl-C at the prompt dropped the cell.
var errCleared = errors.New("the cell was dropped")

// input reads cells, from a person or from a pipe.
type input struct {
	language   interpreter.Language
	interrupts <-chan struct{}
	// read reads one line without its end, after a prompt where somebody sees it.
	read func(prompt string) (string, error)
	// editor is nil without a terminal.
	editor *editor
}

// line is what read returned.
type line struct {
	text string
	err  error
}

func newInput(s *session, language interpreter.Language, interrupts <-chan struct{}) *input {
	in := &input{language: language, interrupts: interrupts}
	if file, ok := s.Stdin.(*os.File); ok && s.StdoutTerminal && isTerminal(file) {
		in.editor = newEditor(file, s.Stdout)
		in.read = in.editor.line
		return in
	}
	lines := bufio.NewReader(s.Stdin)
	in.read = func(string) (string, error) { return plainLine(lines) }
	return in
}

func (in *input) terminal() bool { return in.editor != nil }

func (in *input) close() error {
	if in.editor == nil {
		return nil
	}
	return in.editor.close()
}

// plainLine reads a line of at most MaxCode bytes.
func plainLine(lines *bufio.Reader) (string, error) {
	var text []byte
	for {
		piece, err := lines.ReadSlice('\n')
		text = append(text, piece...)
		switch {
		case len(text) > engine.MaxCode:
			return "", usage("a line is longer than %d bytes, which is the most that code may have", engine.MaxCode)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(text) == 0:
			return "", err
		case err != nil && !errors.Is(err, io.EOF):
			return "", fmt.Errorf("read the code: %w", err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil
	}
}

// cell reads lines until they are a cell. io.EOF says that there is none.
func (in *input) cell(ctx context.Context) (string, error) {
	var lines []string
	for {
		prompt := in.language.Name + "> "
		if len(lines) > 0 {
			prompt = strings.Repeat(".", len(in.language.Name)) + "> "
		}
		text, err := in.line(ctx, prompt)
		switch {
		case errors.Is(err, io.EOF) && len(lines) > 0:
			return strings.Join(lines, "\n"), nil
		case err != nil:
			return "", err
		case len(lines) == 0 && strings.TrimSpace(text) == "":
			continue
		}
		lines = append(lines, text)
		if complete(in.language.Name, lines) {
			return strings.Join(lines, "\n"), nil
		}
	}
}

// line waits for a line or for the end of ctx. Reading itself cannot be interrupted: it is left behind, and ends with the
// process.
func (in *input) line(ctx context.Context, prompt string) (string, error) {
	got := make(chan line, 1)
	go func() {
		text, err := in.read(prompt)
		got <- line{text, err}
	}()
	for {
		select {
		case l := <-got:
			return l.text, l.err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-in.interrupts: // in a terminal Ctrl-C is a key of the editor
			if !in.terminal() {
				return "", errInterrupted
			}
		}
	}
}

// editor edits lines in a terminal, with a history that ends with the shell. The terminal is in raw mode only while a
// line is edited, so that Ctrl-C is a signal while a cell runs.
type editor struct {
	file  *os.File
	keys  *keys
	lines *term.Terminal

	mu sync.Mutex
	// usual is how the terminal is outside of the editor; nil until it was used.
	usual *term.State
	// closed says that the terminal stays as it is from now on, also for a line that is still waited for.
	closed bool
}

func newEditor(file *os.File, screen io.Writer) *editor {
	e := &editor{file: file, keys: &keys{source: file}}
	e.lines = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.keys, screen}, "")
	return e
}

func (e *editor) line(prompt string) (string, error) {
	if err := e.raw(); err != nil {
		return "", err
	}
	if columns, rows, err := term.GetSize(int(e.file.Fd())); err == nil && columns > 0 && rows > 0 {
		_ = e.lines.SetSize(columns, rows) // a wrong size only looks odd
	}
	e.lines.SetPrompt(prompt)
	e.keys.interrupted = false
	text, err := e.lines.ReadLine()
	err = errors.Join(err, e.restore())
	if e.keys.interrupted {
		return "", errors.Join(errCleared, err)
	}
	return text, err
}

// raw has the terminal hand over each key.
func (e *editor) raw() (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return io.EOF
	}
	if e.usual, err = term.MakeRaw(int(e.file.Fd())); err != nil {
		return fmt.Errorf("use the terminal: %w", err)
	}
	return nil
}

// restore gives the terminal back as it was.
func (e *editor) restore() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.usual == nil {
		return nil
	}
	return term.Restore(int(e.file.Fd()), e.usual)
}

// close restores the terminal for good.
func (e *editor) close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	return e.restore()
}

// The keys that take part in clearing a line.
const (
	ctrlC     = 3
	clearLine = "\x05\x15\r" // to its end, delete to its beginning, done
)

// keys passes on what is typed, and makes Ctrl-C an empty line, since the editor takes it for the end.
type keys struct {
	source io.Reader
	buffer [256]byte
	raw    []byte
	out    []byte
	// interrupted says that the line that is read now was cleared.
	interrupted bool
}

// Read gives no more than up to the next Ctrl-C, so that a line that came before it is a line of its own.
func (k *keys) Read(p []byte) (int, error) {
	for len(k.out) == 0 {
		if len(k.raw) == 0 {
			n, err := k.source.Read(k.buffer[:])
			if n == 0 {
				return 0, err
			}
			k.raw = k.buffer[:n]
		}
		switch at := bytes.IndexByte(k.raw, ctrlC); at {
		case 0:
			k.interrupted, k.out, k.raw = true, []byte(clearLine), k.raw[1:]
		case -1:
			k.out, k.raw = k.raw, nil
		default:
			k.out, k.raw = k.raw[:at], k.raw[at:]
		}
	}
	n := copy(p, k.out)
	k.out = k.out[n:]
	return n, nil
}
