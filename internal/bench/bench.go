// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"glovebox/internal/config"
	"glovebox/internal/daemon"
	"glovebox/internal/image"
)

// Options say what is measured and how. Zero values of the measures are replaced by defaults.
type Options struct {
	// Scenarios, Works and Versus are names; empty is the default set of each.
	Scenarios, Works, Versus []string
	// Samples is how many runs each subject and work gets where runs take turns; 0 is the scenario's own number.
	Samples int
	// Rate is how many runs a second are offered in an open loop, Duration how long it and the sustained load go on.
	Rate     float64
	Duration time.Duration
	// Burst is how many come at once, Parallel how many workers keep the sustained load up, Density how many sandboxes
	// stand at once.
	Burst, Parallel, Density int
	// Short measures little, only to show that every scenario works.
	Short bool
	// Server and Key are of a running server to measure; without one the bench starts its own.
	Server, Key string

	// Config has the data folder with the images, and the settings of what is measured inside this process.
	Config config.Config
	// Daemon are the parts that tests replace.
	Daemon daemon.Options
	// Program is this program's path, ConfigFile the file it is told to read, Environment what it starts with.
	Program, ConfigFile string
	Environment         []string
	Now                 func() time.Time
	Log                 *slog.Logger
	// Progress gets a line for each step.
	Progress io.Writer
}

// scenario is one thing to measure.
type scenario struct {
	name, title string
	measure     func(r *run, ctx context.Context, report *ScenarioReport) error
}

// scenarios lists all, in the order in which they are run.
func scenarios() []scenario {
	return []scenario{
		{"cold", "One `glovebox run` process without a server, against the bare interpreter", (*run).cold},
		{"fresh", "A fresh sandbox for each request over HTTP", (*run).fresh},
		{"cell", "The next cell of a session", (*run).cell},
		{"chart", "The first bar chart in a fresh sandbox over HTTP", (*run).chart},
		{"burst", "Many requests at once", (*run).burst},
		{"sustained", "As many runs as the machine can take", (*run).sustained},
		{"density", "Sandboxes that stand idle at once", (*run).density},
		{"overhead", "Computing inside and outside", (*run).overhead},
	}
}

// ScenarioNames returns the names of all scenarios.
func ScenarioNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// missingError is the reason to skip a scenario: something that this host or version does not have.
type missingError struct{ text string }

func (e *missingError) Error() string { return e.text }

// fill replaces what is zero and checks the names.
func (o *Options) fill() error {
	number := func(field *int, usual, short int) {
		if *field <= 0 && o.Short {
			*field = short
		} else if *field <= 0 {
			*field = usual
		}
	}
	number(&o.Burst, 50, 6)
	number(&o.Density, 30, 3)
	number(&o.Parallel, runtime.NumCPU(), 1)
	if o.Rate <= 0 {
		o.Rate = 4
	}
	if o.Duration <= 0 {
		o.Duration = 12 * time.Second
		if o.Short {
			o.Duration = 1500 * time.Millisecond
		}
	}
	if len(o.Versus) == 0 {
		o.Versus = []string{Bare}
	}
	if len(o.Scenarios) == 0 {
		o.Scenarios = ScenarioNames()
	}
	return o.check()
}

func (o *Options) check() error {
	var faults []error
	for _, name := range o.Scenarios {
		if !slices.Contains(ScenarioNames(), name) {
			faults = append(faults, fmt.Errorf("scenario %q is not known: choose from %s", name, strings.Join(ScenarioNames(), ", ")))
		}
	}
	for _, name := range o.Works {
		_, err := findWork(name)
		faults = append(faults, err)
	}
	for _, name := range o.Versus {
		_, err := findPeer(name)
		faults = append(faults, err)
	}
	if o.Server != "" && o.Key == "" {
		faults = append(faults, errors.New("a server needs its key"))
	}
	return errors.Join(faults...)
}

// InvalidError is a fault of the options.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }

func (e *InvalidError) Unwrap() error { return e.Err }

// run is one call of Run.
type run struct {
	Options
	folder string
	image  image.Image
	report *Report
	own    *server // nil until it is needed, or when another one is measured
	// peers are those that were opened so far; nil is one that is not there.
	peers map[string]Subject
}

// Run measures. The report is there even with an error, which then says what could not be measured.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if err := o.fill(); err != nil {
		return nil, &InvalidError{err}
	}
	r := &run{Options: o, peers: make(map[string]Subject)}
	if r.image, err = findImage(o.Config); err != nil {
		return nil, err
	}
	release, err := r.image.Pin()
	if err != nil {
		return nil, err
	}
	defer release()
	if r.folder, err = os.MkdirTemp("", "glovebox-bench-*"); err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.folder)) }()
	if err := dataFolder(r.folder, o.Config.Data); err != nil {
		return nil, fmt.Errorf("prepare a data folder: %w", err)
	}
	if r.report, err = r.newReport(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.report, r.all(ctx)
}

// close ends the server and the peers.
func (r *run) close() error {
	var faults []error
	for _, peer := range r.peers {
		if peer != nil {
			faults = append(faults, peer.Close())
		}
	}
	if r.own != nil {
		faults = append(faults, r.own.close())
	}
	return errors.Join(faults...)
}

func findImage(c config.Config) (image.Image, error) {
	store, err := image.Open(c.Data)
	if err != nil {
		return image.Image{}, err
	}
	return store.Show(c.Image)
}

// all runs the scenarios one after the other; one that fails does not keep the others from their turn.
func (r *run) all(ctx context.Context) error {
	var faults []error
	for _, s := range scenarios() {
		if !slices.Contains(r.Scenarios, s.name) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.say("%s: %s", s.name, s.title)
		report := &ScenarioReport{Name: s.name, Title: s.title}
		err := r.one(ctx, s, report)
		var missing *missingError
		switch {
		case errors.As(err, &missing):
			report.Skipped = missing.text
			r.say("%s: skipped: %s", s.name, missing.text)
		case err != nil:
			report.Skipped = "failed: " + err.Error()
			faults = append(faults, fmt.Errorf("scenario %s: %w", s.name, err))
		}
		r.report.Scenarios = append(r.report.Scenarios, report)
	}
	return errors.Join(faults...)
}

// one runs a scenario and notes what the host did meanwhile.
func (r *run) one(ctx context.Context, s scenario, report *ScenarioReport) error {
	before, err := look(r.Now)
	if err != nil {
		return err
	}
	if err := s.measure(r, ctx, report); err != nil {
		return err
	}
	after, err := look(r.Now)
	if err != nil {
		return err
	}
	conditions := before.until(after)
	report.Conditions = &conditions
	return report.check()
}

func (r *run) say(format string, values ...any) {
	fmt.Fprintf(r.Progress, "bench: "+format+"\n", values...)
}

// samples is the number of turns of a scenario.
func (r *run) samples(usual, short int) int {
	switch {
	case r.Samples > 0:
		return r.Samples
	case r.Short:
		return short
	}
	return usual
}

// works are the asked ones, or the usual ones of a scenario.
func (r *run) works(usual ...Work) []Work {
	if len(r.Works) == 0 {
		return usual
	}
	var list []Work
	for _, name := range r.Works {
		if w, err := findWork(name); err == nil { // checked before
			list = append(list, w)
		}
	}
	return list
}

// wall is a limit that no run meets but one that hangs, however busy the machine.
func (r *run) wall() time.Duration { return min(time.Minute, time.Duration(r.Config.Maxima.Wall)) }

// client returns the subject that is measured over HTTP, and starts a server if there is none. The caller closes it.
func (r *run) client(ctx context.Context) (*client, error) {
	if r.Server != "" {
		c := newClient(r.Server, r.Key, r.Config.Image, r.wall(), r.Now)
		if err := c.healthy(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("server %s: %w", r.Server, err), c.Close())
		}
		return c, nil
	}
	if r.own == nil {
		r.say("starting a server of our own")
		started, err := startServer(ctx, &r.Options, r.folder)
		if err != nil {
			return nil, err
		}
		r.own = started
	}
	return newClient(r.own.address, r.own.key, r.Config.Image, r.wall(), r.Now), nil
}

// serverFaults are the page faults of the server and its sandboxes so far, where they can be told.
func (r *run) serverFaults() (int64, bool) {
	if r.own == nil {
		return 0, false
	}
	usage, err := usageOf(r.own.pid)
	return usage.faults, err == nil
}

// versus returns the peers, those that a scenario always needs and the asked ones. One that is not there is named in
// the report.
func (r *run) versus(ctx context.Context, always ...string) []Subject {
	var subjects []Subject
	var names []string
	for _, name := range append(always, r.Versus...) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if subject := r.peer(ctx, name); subject != nil {
			subjects = append(subjects, subject)
		}
	}
	return subjects
}

// peer opens a peer once, and returns nil if it is not there.
func (r *run) peer(ctx context.Context, name string) Subject {
	if subject, known := r.peers[name]; known {
		return subject
	}
	peer, err := findPeer(name)
	if err != nil {
		return nil // checked before
	}
	subject, err := r.openPeer(ctx, peer)
	if err != nil {
		subject = nil
		r.report.missing(name, err.Error(), peer.Install)
		r.say("peer %s is not measured: %v; to have it: %s", name, err, peer.Install)
	}
	r.peers[name] = subject
	return subject
}

// openPeer opens a peer and lets it show that it works.
func (r *run) openPeer(ctx context.Context, peer Peer) (Subject, error) {
	subject, version, err := peer.open(ctx, peerHost{
		rootfs: r.image.Rootfs, digest: r.image.Digest, now: r.Now, folder: r.folder, note: r.say,
	})
	if err != nil {
		return nil, err
	}
	if s := subject.Run(ctx, printWork(), r.Now()); s.Err != nil {
		return nil, errors.Join(fmt.Errorf("it does not work here: %w", s.Err), subject.Close())
	}
	r.report.present(peer, version)
	return subject, nil
}

// scratch makes a folder of its own below the temporary one.
func (r *run) scratch(name string) (string, error) {
	path := filepath.Join(r.folder, name)
	return path, os.MkdirAll(path, 0o755)
}
