// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"glovebox/internal/engine"
	"glovebox/internal/interpreter"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

type runCommand struct {
	Script string `arg:"" help:"The script, or - for standard input."`

	Language string `help:"Language: ${languages} (default: by the script's extension, or python)." short:"l" placeholder:"L"`
	JSON     bool   `help:"Print one JSON object and nothing else." name:"json"`

	sandboxFlags `embed:""`
	outFlags     `embed:""`
	serverFlags  `embed:""`
}

// sandboxFlags say what a sandbox holds and may use.
type sandboxFlags struct {
	File      []string      `help:"Show a file to the code, read-only, in its working folder; may be given again." short:"f" placeholder:"FILE" sep:"none"`
	Timeout   *durationFlag `help:"Wall-clock limit, as 10s." placeholder:"D"`
	Memory    *sizeFlag     `help:"Memory limit, as 512MiB." placeholder:"B"`
	CPUs      *cpusFlag     `help:"Processors, as 1 or 0.5." name:"cpus" placeholder:"N"`
	Processes *int64        `help:"Limit of processes and threads." placeholder:"N"`
	OpenFiles *int64        `help:"Limit of open files of each process." placeholder:"N"`
	Disk      *sizeFlag     `help:"Limit of the working folder, as 256MiB." placeholder:"B"`
	Bandwidth *sizeFlag     `help:"Limit of disk reads, and of writes, in bytes a second, as 50MiB; not every host can." name:"disk-bandwidth" placeholder:"B"`
	Output    *sizeFlag     `help:"How much of each stream is kept, as 64MiB." placeholder:"B"`
	Backend   string        `help:"Backend (default: auto, the strongest of this host)." placeholder:"B"`
	Policy    string        `help:"Policy: standard, tight or strict." placeholder:"P"`
	Image     string        `help:"Image (default: python)." placeholder:"I"`
}

// outFlags say where results are saved.
type outFlags struct {
	Out       string `help:"Save charts and the files that the code left in this folder." short:"o" placeholder:"DIR" type:"path"`
	Overwrite bool   `help:"Replace files that are in the folder of --out already."`
}

type sizeFlag int64

// UnmarshalText reads a size.
func (f *sizeFlag) UnmarshalText(text []byte) error {
	size, err := policy.ParseSize(string(text))
	*f = sizeFlag(size)
	return err
}

type durationFlag time.Duration

// UnmarshalText reads a duration.
func (f *durationFlag) UnmarshalText(text []byte) error {
	duration, err := policy.ParseDuration(string(text))
	*f = durationFlag(duration)
	return err
}

type cpusFlag int64

// UnmarshalText reads a number of processors.
func (f *cpusFlag) UnmarshalText(text []byte) error {
	cpus, err := policy.ParseCPUs(string(text))
	*f = cpusFlag(cpus)
	return err
}

// runner is where an execution takes place: here, or in a server.
type runner interface {
	run(ctx context.Context, request engine.Request, sink engine.Sink) (*engine.Execution, error)
	artifact(ctx context.Context, id sandbox.ID, name string) (io.ReadCloser, error)
	close() error
}

// Run runs a script.
func (c runCommand) Run(s *session) (err error) {
	request, err := c.request(s)
	if err != nil {
		return c.refused(s, err)
	}
	out, err := openOut(c.Out, c.Overwrite)
	if err != nil {
		return c.refused(s, err)
	}
	defer func() { err = errors.Join(err, out.close()) }()
	r, err := c.runner(s)
	if err != nil {
		return c.refused(s, err)
	}
	defer func() {
		if closeErr := r.close(); err == nil && closeErr != nil {
			err = fmt.Errorf("clean up: %w", closeErr)
		}
	}()
	view := newView(s, out, c.JSON)
	x, err := r.run(s.ctx, request, view)
	if err != nil {
		return c.refused(s, err)
	}
	if err := c.save(s, r, out, x); err != nil {
		view.note("%v", err)
		err = nil
		if x.Status.End() == sandbox.EndOK {
			defer func() { err = &exitError{Code: engine.ExitInfra} }()
		}
	}
	if c.JSON {
		if err := json.NewEncoder(s.Stdout).Encode(x); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
	} else {
		view.summary(x, c.Out != "")
	}
	if code := x.CommandExitCode(); code != 0 {
		return &exitError{Code: code}
	}
	return view.failed
}

// refused reports a request that was not carried out; with --json as an object on stdout too.
func (c runCommand) refused(s *session, err error) error {
	if !c.JSON {
		return err
	}
	return s.object(err)
}

// object prints an error as an object on stdout, and returns it.
func (s *session) object(err error) error {
	var problem *engine.Problem
	if !errors.As(err, &problem) {
		problem = &engine.Problem{Code: engine.CodeInternal, Text: err.Error()}
		var exit *exitError
		if errors.As(err, &exit) && exit.Code == engine.ExitUsage {
			problem.Code = engine.CodeInvalid
		}
	}
	return errors.Join(err, json.NewEncoder(s.Stdout).Encode(struct {
		Code   engine.Code `json:"code"`
		Detail string      `json:"detail"`
		Errors []string    `json:"errors,omitempty"`
	}{problem.Code, problem.Text, problem.Faults}))
}

// request makes the engine's request of the flags.
func (c runCommand) request(s *session) (engine.Request, error) {
	code, name, err := c.script(s)
	if err != nil {
		return engine.Request{}, err
	}
	language, err := c.language(name)
	if err != nil {
		return engine.Request{}, err
	}
	if c.Script == "-" {
		name = "stdin" + language.Extension
	}
	request, err := c.sandbox()
	request.Code, request.Name, request.Language = code, name, language.Name
	return request, err
}

// sandbox makes the part of a request that describes the sandbox.
func (c sandboxFlags) sandbox() (engine.Request, error) {
	request := engine.Request{
		Policy: c.Policy, Image: c.Image, Backend: c.Backend,
		Limits: policy.Overrides{
			Wall: (*time.Duration)(c.Timeout), Memory: (*int64)(c.Memory), MilliCPU: (*int64)(c.CPUs),
			Processes: c.Processes, OpenFiles: c.OpenFiles, Disk: (*int64)(c.Disk), Output: (*int64)(c.Output),
			DiskBandwidth: (*int64)(c.Bandwidth),
		},
	}
	for _, path := range c.File {
		file, err := inputFile(path)
		if err != nil {
			return engine.Request{}, err
		}
		request.Files = append(request.Files, file)
	}
	return request, nil
}

// language is the one asked for, or that of the script's extension.
func (c runCommand) language(script string) (interpreter.Language, error) {
	if c.Language != "" {
		language, found := interpreter.Lookup(c.Language)
		if !found {
			return language, usage("there is no language %q: choose one of %s", c.Language, strings.Join(interpreter.Names(), ", "))
		}
		return language, nil
	}
	language, found := interpreter.OfFile(script)
	if !found {
		language, _ = interpreter.Lookup(engine.DefaultLanguage)
	}
	return language, nil
}

// script reads the source text.
func (c runCommand) script(s *session) (code, name string, err error) {
	source, name := s.Stdin, "stdin.py"
	if c.Script != "-" {
		file, err := openRegular("script", c.Script)
		if err != nil {
			return "", "", err
		}
		defer file.Close()
		source, name = file, filepath.Base(c.Script)
	}
	content, err := io.ReadAll(io.LimitReader(source, engine.MaxCode+1))
	if err != nil {
		return "", "", usage("script %s cannot be read: %w", c.Script, err)
	}
	switch {
	case len(content) == 0:
		return "", "", usage("script %s is empty: there is nothing to run", c.Script)
	case len(content) <= engine.MaxCode && !utf8.Valid(content): // a longer one is refused for its length
		return "", "", usage("script %s is not UTF-8 text: save it as UTF-8", c.Script)
	}
	return string(content), name, nil
}

// inputFile describes an upload; it is opened when the sandbox takes it.
func inputFile(path string) (sandbox.InputFile, error) {
	file, err := openRegular("file", path)
	if err != nil {
		return sandbox.InputFile{}, err
	}
	if err := file.Close(); err != nil {
		return sandbox.InputFile{}, err
	}
	return sandbox.InputFile{
		Name: filepath.Base(path), Open: func() (io.ReadCloser, error) { return openRegular("file", path) },
	}, nil
}

// openRegular opens a file that the user named.
func openRegular(what, path string) (*os.File, error) {
	file, err := os.Open(path)
	if err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			return nil, usage("%s %s cannot be opened: %w; check the path and its permissions", what, path.Path, path.Err)
		}
		return nil, usage("%s cannot be opened: %w", what, err)
	}
	stat, err := file.Stat()
	if err == nil && stat.IsDir() {
		err = usage("%s %s is a folder: name a file", what, path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// runner prefers a server, which has warm sandboxes.
func (c runCommand) runner(s *session) (runner, error) {
	r, err := c.remote(s, c.JSON)
	if err != nil {
		return nil, err
	}
	if r != nil {
		return r, nil
	}
	l, err := newLocal(s)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// save writes the files that the code left into the folder of --out.
func (c runCommand) save(s *session, r runner, out *outFolder, x *engine.Execution) error {
	if c.Out == "" {
		return nil
	}
	var faults []error
	for _, a := range x.Artifacts {
		if err := out.save(a.Name, func() (io.ReadCloser, error) { return r.artifact(s.ctx, x.ID, a.Name) }); err != nil {
			faults = append(faults, err)
		}
	}
	if c.JSON {
		for i, result := range x.Results {
			faults = append(faults, out.chart(result, i))
		}
	}
	return errors.Join(append(faults, out.failed...)...)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func joined(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
