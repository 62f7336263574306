// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"glovebox/internal/bench"
)

type benchCommand struct {
	Scenarios []string      `arg:"" optional:"" help:"What to measure: cold, fresh, cell, chart, burst, sustained, density, overhead (default: all)."`
	Scenario  []string      `help:"The same as a list." placeholder:"LIST" sep:","`
	Vs        []string      `help:"Measure these in turn as well: bare, bwrap, docker, nsjail, go-judge; what is not installed is named (default: bare)." placeholder:"LIST" sep:","`
	Work      []string      `help:"What is run: print, groupby, chart (default: the scenario's own)." placeholder:"LIST" sep:","`
	Samples   int           `help:"Runs of each subject and work where they take turns." short:"n" placeholder:"N"`
	Rate      float64       `help:"Requests offered a second in the open loop (default: 4)." placeholder:"R"`
	Duration  *durationFlag `help:"Length of the open loop and of the sustained load (default: 12s)." placeholder:"D"`
	Burst     int           `help:"Requests that come at once (default: 50)." placeholder:"N"`
	Parallel  int           `help:"Workers of the sustained load (default: one a processor)." placeholder:"N"`
	Density   int           `help:"Sandboxes that stand idle at once (default: 30)." placeholder:"N"`
	Server    string        `help:"Measure this running server in place of one started for it." placeholder:"URL"`
	Key       string        `help:"The running server's token (default: GLOVEBOX_TOKEN)." placeholder:"TOKEN"`
	Image     string        `help:"Image (default: python)." placeholder:"I"`
	Short     bool          `help:"Only show that every scenario works, in less than a minute."`
	JSON      bool          `help:"Print one JSON object in place of tables." name:"json"`
	Markdown  string        `help:"Write the tables to this file as well." placeholder:"FILE" type:"path"`
}

// Run measures and reports. There are no thresholds: only what could not be measured is an error.
func (c benchCommand) Run(s *session) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o := bench.Options{
		Scenarios: append(c.Scenarios, c.Scenario...), Works: c.Work, Versus: c.Vs, Samples: c.Samples, Rate: c.Rate,
		Burst: c.Burst, Parallel: c.Parallel, Density: c.Density, Short: c.Short, Server: c.Server, Key: c.Key,
		Config: s.config, Daemon: s.Daemon, Program: program, ConfigFile: s.configFile, Environment: s.Environment.Vars,
		Now: time.Now, Log: s.log, Progress: s.Stderr,
	}
	if c.Duration != nil {
		o.Duration = time.Duration(*c.Duration)
	}
	if c.Image != "" {
		o.Config.Image = c.Image
	}
	if o.Key == "" {
		o.Key = string(s.config.Token)
	}
	report, err := bench.Run(s.ctx, o)
	if _, ok := errors.AsType[*bench.InvalidError](err); ok {
		return usage("%w", err)
	}
	if report == nil {
		return imageError(err)
	}
	return errors.Join(err, c.report(s, report))
}

// report prints the report, and writes it to the file.
func (c benchCommand) report(s *session, report *bench.Report) error {
	write := report.WriteMarkdown
	if c.JSON {
		write = report.WriteJSON
	}
	if err := write(s.Stdout); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	if c.Markdown == "" {
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(c.Markdown), ".benchmarks-*")
	if err != nil {
		return usage("the report cannot be written: %w", err)
	}
	defer os.Remove(file.Name()) // it has another name by then
	err = errors.Join(report.WriteMarkdown(file), file.Chmod(0o644), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), c.Markdown)
	}
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
