// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/interpreter"
	"glovebox/internal/rootless"
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
	// Signals are those that end a command politely. A second one ends it at once; a server then cancels what it would
	// still wait for, and a third one ends that too.
	Signals []os.Signal
}

// Host is the process as the system started it.
func Host() Process { return HostIn(os.Args[1:], rootless.Namespace{Outer: os.Geteuid()}) }

// HostIn is a process with these arguments, in a user namespace of a user, or in none.
func HostIn(args []string, namespace rootless.Namespace) Process {
	environment := config.Host()
	environment.Root = namespace.Outer == 0 // inside a namespace everybody is
	return Process{
		Args: args, Daemon: daemon.Options{Namespace: namespace}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdoutTerminal: isTerminal(os.Stdout), StderrTerminal: isTerminal(os.Stderr),
		Environment: environment, Signals: []os.Signal{syscall.SIGINT, syscall.SIGTERM},
	}
}

// commands is the whole command line.
type commands struct {
	Config string `help:"Configuration file (default: ${config_file}, when there is one)." placeholder:"FILE" type:"path"`
	Data   string `help:"Folder for images, executions and the server's socket (default: GLOVEBOX_DATA, or ${default_data})." placeholder:"DIR" type:"path"`

	AcceptMissing []string `help:"Do without layers that this host lacks, by their names in glovebox doctor; what they limit is not limited." placeholder:"LAYER" sep:","`

	ShowVersion kong.VersionFlag `name:"version" help:"Show the version."`

	Run      runCommand     `cmd:"" help:"Run a script in a sandbox of its own."`
	Shell    shellCommand   `cmd:"" help:"Type code into a sandbox that keeps its state."`
	Serve    serveCommand   `cmd:"" help:"Serve the HTTP interface."`
	Image    imageCommand   `cmd:"" help:"Build, list, show and remove images."`
	Keys     keysCommand    `cmd:"" help:"Create, list and revoke API keys of the server."`
	Usage    usageCommand   `cmd:"" help:"Show what a tenant used."`
	Settings configCommand  `cmd:"" name:"config" help:"Check and print the configuration."`
	Backup   backupCommand  `cmd:"" help:"Write keys, executions and their files to one file; a server may run."`
	Restore  restoreCommand `cmd:"" help:"Bring back what a backup holds; no server may run."`
	Doctor   doctorCommand  `cmd:"" help:"Show what this host can isolate, and how to mend what is missing."`
	Bench    benchCommand   `cmd:"" help:"Measure this program on this host, beside others that do the same work."`
	Version  versionCommand `cmd:"" help:"Show the version."`
}

// session is one call of the program.
type session struct {
	Process
	ctx        context.Context //nolint:containedctx // it lives as long as one command
	config     config.Config
	configFile string       // as it was named on the command line
	flags      config.Flags // as they were given
	log        *slog.Logger
	level      *slog.LevelVar // of the log
	// serving says that the command is serve, whose log is for operators.
	serving bool
	signals *signals
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
	watched := watch(p.Signals, cancel)
	defer watched.stop()
	err := p.dispatch(ctx, watched)
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
	case engine.CodeCanceled:
		return engine.ExitCanceled
	case engine.CodeBusy, engine.CodeEnded, engine.CodeExists, engine.CodeDenied, engine.CodeExpired, engine.CodeImage, engine.CodeBackend, engine.CodeUnsupported, engine.CodeOverloaded, engine.CodeQuota, engine.CodeRate, engine.CodeBudget, engine.CodeShuttingDown,
		engine.CodeNotFound, engine.CodeRunning, engine.CodeStorage, engine.CodeInternal:
	}
	if errors.Is(err, errInterrupted) {
		return engine.ExitCanceled
	}
	return engine.ExitInfra
}

// helpShown is how kong's wish to leave after --help reaches dispatch.
type helpShown struct{ code int }

func (p Process) dispatch(ctx context.Context, watched *signals) (err error) {
	defer func() {
		if shown, ok := recover().(helpShown); ok {
			err = &exitError{Code: shown.code}
			if shown.code == 0 {
				err = nil
			}
		}
	}()
	var c commands
	s := &session{Process: p, ctx: ctx, signals: watched}
	parser, err := kong.New(&c, kong.Name("glovebox"), kong.Writers(p.Stdout, p.Stderr), kong.Bind(s),
		kong.Description("Runs untrusted code safely, in milliseconds."), kong.UsageOnError(), kong.ShortUsageOnError(),
		kong.Exit(func(code int) { panic(helpShown{code}) }), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{
			"config_file": p.Environment.File, "default_data": "a folder of the user", "version": versionText(),
			"languages": strings.Join(interpreter.Names(), ", "),
		})
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
	if c.Serve.SingleTenant {
		flags.SingleTenant = &c.Serve.SingleTenant
	}
	flags.Hosts, flags.AcceptMissing = c.Serve.Host, c.AcceptMissing
	loaded, err := config.Load(s.Environment, flags)
	if err != nil {
		return usage("the configuration is not valid: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	s.config, s.configFile, s.flags = loaded, c.Config, flags
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
	s.level = &slog.LevelVar{}
	s.level.Set(level)
	options := &slog.HandlerOptions{Level: s.level}
	if s.config.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(s.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(s.Stderr, options))
}
