// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/interpreter"
)

// Process is what a command has of its surroundings.
type Process struct {
	Args           []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// StdoutTerminal and StderrTerminal say that a person reads there.
	StdoutTerminal, StderrTerminal bool
	Environment                    config.Environment
	// Daemon are the parts that tests replace.
	Daemon daemon.Options
	// Signals are those that end a command politely; one that comes later ends it at once.
	Signals []os.Signal
}

// Host is the process as the system started it.
func Host() Process {
	return Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdoutTerminal: isTerminal(os.Stdout), StderrTerminal: isTerminal(os.Stderr),
		Environment: config.Host(), Signals: []os.Signal{syscall.SIGINT, syscall.SIGTERM},
	}
}

// commands is the whole command line.
type commands struct {
	Config string `help:"Configuration file (default: ${config_file}, when there is one)." placeholder:"FILE" type:"path"`
	Data   string `help:"Folder for images, executions and the server's socket (default: GLOVEBOX_DATA, or ${default_data})." placeholder:"DIR" type:"path"`

	Run     runCommand     `cmd:"" help:"Run a script in a sandbox of its own."`
	Serve   serveCommand   `cmd:"" help:"Serve the HTTP interface."`
	Image   imageCommand   `cmd:"" help:"Build, list, show and remove images."`
	Doctor  doctorCommand  `cmd:"" help:"Show what this host can isolate, and how to mend what is missing."`
	Bench   benchCommand   `cmd:"" help:"Measure this program on this host, beside others that do the same work."`
	Version versionCommand `cmd:"" help:"Show the version."`
}

// session is one call of the program.
type session struct {
	Process
	ctx        context.Context //nolint:containedctx // it lives as long as one command
	config     config.Config
	configFile string // as it was named on the command line
	log        *slog.Logger
	// serving says that the command is serve, whose log is for operators.
	serving bool
}

// exitError is an error with an exit code of its own; a nil Err says nothing more.
type exitError struct {
	Code int
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

func usage(format string, values ...any) error {
	return &exitError{Code: engine.ExitUsage, Err: fmt.Errorf(format, values...)}
}

// errInterrupted is the cause of a command that a signal ended.
var errInterrupted = errors.New("interrupted")

// Main runs a command and returns its exit code.
func Main(p Process) (code int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer p.watchSignals(cancel)()
	err := p.dispatch(ctx)
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		code, err = exit.Code, exit.Err
	} else {
		code = exitCodeOf(err)
	}
	if err != nil {
		fmt.Fprintln(p.Stderr, "glovebox: "+visible(err.Error()))
	}
	return code
}

// exitCodeOf maps an error to an exit code, in this one place.
func exitCodeOf(err error) int {
	switch engine.CodeOf(err) {
	case engine.CodeInvalid, engine.CodeLimit, engine.CodeTooLarge:
		return engine.ExitUsage
	case engine.CodeImage, engine.CodeBackend, engine.CodeUnsupported, engine.CodeOverloaded, engine.CodeShuttingDown,
		engine.CodeNotFound, engine.CodeRunning, engine.CodeStorage, engine.CodeInternal:
	}
	if errors.Is(err, errInterrupted) {
		return engine.ExitCanceled
	}
	return engine.ExitInfra
}

// signalEcho is for how long the same wish may arrive again: wrappers such as timeout send it twice.
const signalEcho = time.Second

// watchSignals cancels on the first signal, and leaves those that come after its echo to the system.
func (p Process) watchSignals(cancel context.CancelCauseFunc) (stop func()) {
	if len(p.Signals) == 0 {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, p.Signals...)
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-done:
			return
		}
		select {
		case <-time.After(signalEcho):
			signal.Stop(signals)
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// helpShown is how kong's wish to leave after --help reaches dispatch.
type helpShown struct{ code int }

func (p Process) dispatch(ctx context.Context) (err error) {
	defer func() {
		if shown, ok := recover().(helpShown); ok {
			err = &exitError{Code: shown.code}
			if shown.code == 0 {
				err = nil
			}
		}
	}()
	var c commands
	s := &session{Process: p, ctx: ctx}
	parser, err := kong.New(&c, kong.Name("glovebox"), kong.Writers(p.Stdout, p.Stderr), kong.Bind(s),
		kong.Description("Runs untrusted code safely, in milliseconds."), kong.UsageOnError(), kong.ShortUsageOnError(),
		kong.Exit(func(code int) { panic(helpShown{code}) }), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"config_file": p.Environment.File, "default_data": "a folder of the user", "languages": strings.Join(interpreter.Names(), ", ")})
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	parsed, err := parser.Parse(p.Args)
	if err != nil {
		err := usage("%w; see glovebox --help", err)
		if slices.Contains(p.Args, "run") && slices.Contains(p.Args, "--json") {
			return s.object(err)
		}
		return err
	}
	if strings.HasPrefix(parsed.Command(), "version") {
		return parsed.Run(s)
	}
	s.serving = parsed.Command() == "serve"
	if err := s.load(c); err != nil {
		return err
	}
	return parsed.Run(s)
}

// load reads the configuration.
func (s *session) load(c commands) error {
	flags := config.Flags{File: c.Config}
	if c.Data != "" {
		flags.Data = &c.Data
	}
	if c.Serve.Addr != "" {
		flags.Addr = &c.Serve.Addr
	}
	if c.Serve.AllowRemote {
		flags.AllowRemote = &c.Serve.AllowRemote
	}
	flags.Hosts = c.Serve.Host
	loaded, err := config.Load(s.Environment, flags)
	if err != nil {
		return usage("the configuration is not valid: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	s.config, s.configFile = loaded, c.Config
	s.log = s.logger()
	return nil
}

// logger writes to stderr. A command other than serve tells what went wrong itself, so its log speaks only when debug is
// asked for.
func (s *session) logger() *slog.Logger {
	level, err := s.config.Log.SlogLevel()
	if err != nil {
		level = slog.LevelInfo
	}
	if level > slog.LevelDebug && !s.serving {
		return slog.New(slog.DiscardHandler)
	}
	options := &slog.HandlerOptions{Level: level}
	if s.config.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(s.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(s.Stderr, options))
}
