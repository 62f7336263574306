// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"glovebox/internal/engine"
	"glovebox/internal/interpreter"
	"glovebox/internal/sandbox"
)

type shellCommand struct {
	Language string `help:"Language: ${languages} (default: python)." short:"l" placeholder:"L"`

	sandboxFlags `embed:""`
	outFlags     `embed:""`
	serverFlags  `embed:""`
}

// Help explains what is special about typing.
func (shellCommand) Help() string {
	return "Without a terminal, cells are read from standard input by the same rules, and the first refusal ends it.\n\n" + shellHelp
}

const shellHelp = `A cell ends with its line, but goes on while a bracket, a text over several lines or a line's last backslash is open.
Where a line begins a block (in Python with a colon at its end), an empty line ends the cell; two always do.

  :help     this text
  :restart  a fresh sandbox: variables and files are gone
  :files    the files in the working folder
  :quit     the end, like Ctrl-D

Ctrl-C interrupts what runs, and the variables stay if the code heeds it; at the prompt it drops the cell.
A line that is typed has at most 4,095 characters. The sandbox ends with the shell, and when it is not used for some minutes.
--out saves charts; files stay in the sandbox.
`

// Run reads cells and runs them until there are no more.
func (c shellCommand) Run(s *session) (err error) {
	sh, err := c.open(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sh.end()) }()
	if sh.input.terminal() {
		sh.view.note("%s in a sandbox; :help says more", sh.language.Name)
	}
	return sh.loop()
}

// shell is a sandbox that is typed into.
type shell struct {
	*session
	language   interpreter.Language
	book       notebook
	input      *input
	view       *view
	out        *outFolder
	interrupts <-chan struct{}
	// saved and charts are how much of the view's was told already.
	saved, charts int
}

func (c shellCommand) open(s *session) (*shell, error) {
	language, err := runCommand{Language: c.Language}.language("")
	if err != nil {
		return nil, err
	}
	request, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	request.Language = language.Name
	out, err := openOut(c.Out, c.Overwrite)
	if err != nil {
		return nil, err
	}
	book, err := c.notebook(s, request)
	if err != nil {
		return nil, errors.Join(err, out.close())
	}
	sh := &shell{session: s, language: language, book: book, out: out, view: newView(s, out, false), interrupts: s.signals.interrupts()}
	sh.input = newInput(s, language, sh.interrupts)
	if err := book.open(s.ctx); err != nil {
		return nil, errors.Join(err, sh.end())
	}
	return sh, nil
}

// notebook is in a server where there is one, like a run.
func (c shellCommand) notebook(s *session, request engine.Request) (notebook, error) {
	r, err := c.remote(s, false)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return &remoteNotebook{remote: r, request: request}, nil
	}
	l, err := newLocal(s)
	if err != nil {
		return nil, err
	}
	return &localNotebook{local: l, request: request}, nil
}

// end leaves no sandbox behind, whatever ended the shell.
func (sh *shell) end() error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(sh.ctx), endPatience, errors.New("the sandbox did not end in time"))
	defer cancel()
	return errors.Join(sh.book.end(ctx), sh.book.close(), sh.out.close(), sh.input.close())
}

func (sh *shell) loop() error {
	for {
		text, err := sh.input.cell(sh.ctx)
		switch {
		case errors.Is(err, errCleared):
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if command, ok := commandOf(text); ok {
			if command == "quit" {
				return nil
			}
			err = sh.command(command)
		} else {
			err = sh.run(text)
		}
		if err == nil {
			err = sh.view.failed
		}
		if err = sh.refused(err); err != nil {
			return err
		}
	}
}

// commandOf tells a command of ours from code: no language has a line that begins with a colon and a letter.
func commandOf(text string) (string, bool) {
	word, ok := strings.CutPrefix(strings.TrimSpace(text), ":")
	if !ok || word == "" || strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) {
		return "", false
	}
	return word, true
}

func (sh *shell) command(name string) error {
	switch name {
	case "help":
		_, err := io.WriteString(sh.Stdout, shellHelp)
		return err
	case "restart":
		return sh.restart()
	case "files":
		return sh.run(listing(sh.language.Name))
	}
	sh.view.note("there is no command :%s; :help lists them", name)
	return nil
}

// listing is code that shows the files in the working folder, and leaves no variable.
func listing(language string) string {
	switch language {
	case "python":
		return `print(*sorted(__import__("os").listdir(".")), sep="\n")`
	case "bash":
		return "ls -A"
	default:
		return `console.log((await import("node:fs")).readdirSync(".").join("\n"))`
	}
}

func (sh *shell) restart() error {
	if err := sh.book.end(sh.ctx); err != nil {
		return err
	}
	if err := sh.book.open(sh.ctx); err != nil {
		return err
	}
	sh.view.note("a fresh sandbox: all variables and files are gone")
	return nil
}

// run runs a cell; an interrupt ends it and not the shell.
func (sh *shell) run(text string) error {
	ctx, cancel := context.WithCancelCause(sh.ctx)
	defer cancel(nil)
	select {
	case <-sh.interrupts: // it was meant for the cell before
	default:
	}
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-sh.interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	x, err := sh.book.cell(ctx, text, sh.view)
	interrupted := ctx.Err() != nil
	cancel(nil)
	<-watching
	if sh.ctx.Err() != nil {
		return context.Cause(sh.ctx)
	}
	if err != nil {
		return err
	}
	sh.tell(x, interrupted)
	return nil
}

// tell says what the streams did not.
func (sh *shell) tell(x *engine.Execution, interrupted bool) {
	switch {
	case interrupted && x.Status.End() == sandbox.EndCanceled:
		sh.view.note("interrupted")
	case x.Message != "":
		sh.view.note("%s", x.Message)
	}
	if x.StateReset {
		sh.view.note("the session was reset: all variables are gone")
	}
	for ; sh.saved < len(sh.out.names); sh.saved++ {
		sh.view.note("saved %s", sh.out.names[sh.saved])
	}
	for _, fault := range sh.out.failed {
		sh.view.note("%v", fault)
	}
	sh.out.failed = nil
	if n := sh.view.charts - sh.charts; n > 0 && sh.out.root == nil {
		sh.view.note("%s not saved: --out DIR keeps them", plural(n, "chart was", "charts were"))
	}
	sh.charts = sh.view.charts
}

// refused shows a person why a cell was not run, and goes on where that makes sense. Without a person the first refusal is
// the end: what follows may need what was not run.
func (sh *shell) refused(err error) error {
	if err == nil || !sh.input.terminal() {
		return err
	}
	problem, ok := errors.AsType[*engine.Problem](err)
	if !ok {
		return err
	}
	switch problem.Code {
	case engine.CodeInvalid, engine.CodeLimit, engine.CodeTooLarge, engine.CodeOverloaded, engine.CodeCanceled:
		sh.view.note("%v", err)
		return nil
	case engine.CodeExpired, engine.CodeNotFound:
		sh.view.note("%v", err)
		if err := sh.book.open(sh.ctx); err != nil {
			return err
		}
		sh.view.note("this is a fresh sandbox: all variables and files are gone, and the cell was not run")
		return nil
	default:
		return fmt.Errorf("the shell ends: %w", err)
	}
}
