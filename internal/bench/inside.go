// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"glovebox/internal/cgroup"
	"glovebox/internal/daemon"
	"glovebox/internal/engine"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// inside is a backend within this process.
type inside struct {
	backend  sandbox.Backend
	system   *daemon.System
	class    sandbox.Class
	limits   sandbox.Limits
	newID    func() sandbox.ID
	warm     bool
	standing []sandbox.Sandbox
}

func (r *run) openInside(ctx context.Context) (_ *inside, err error) {
	c := r.Config
	c.Data = r.folder
	decision, err := policy.Decide(c.Policy, policy.Overrides{}, c.Maxima.Limits())
	if err != nil {
		return nil, err
	}
	options := r.Daemon
	if options.Executions, err = r.scratch("inside"); err != nil {
		return nil, err
	}
	system, err := daemon.Open(c, options, r.Log)
	if err != nil {
		return nil, &missingError{err.Error()}
	}
	backend := system.Backends()[0]
	capabilities, err := backend.Probe(ctx)
	if err == nil && !capabilities.Available {
		err = &missingError{fmt.Sprintf("backend %s is not available: %s", backend.Name(), capabilities.Why)}
	}
	in := &inside{
		warm: capabilities.Warm, backend: backend, system: system, limits: decision.Limits, newID: engine.NewIDs(),
		class: sandbox.Class{Image: r.image.Digest, Profile: decision.Profile, Network: decision.Network},
	}
	if err != nil {
		return nil, errors.Join(err, in.tearDown())
	}
	return in, nil
}

// create makes a sandbox, as a pool does; it stands until tearDown.
func (in *inside) create(ctx context.Context, warmth sandbox.Warmth) (sandbox.Sandbox, error) {
	class := in.class
	class.Warm = warmth
	box, err := in.backend.Create(ctx, in.newID(), class)
	if err == nil {
		in.standing = append(in.standing, box)
	}
	return box, err
}

// open hands a sandbox out and opens its interpreter.
func (in *inside) open(ctx context.Context, box sandbox.Sandbox) (sandbox.Session, error) {
	if err := box.Lease(ctx, sandbox.Lease{Limits: in.limits}); err != nil {
		return nil, err
	}
	return box.Open(ctx, sandbox.OpenSpec{Language: sandbox.WarmLanguage})
}

// warmest is how warm a sandbox that anything may run in can be.
func (in *inside) warmest() sandbox.Warmth {
	if in.warm {
		return sandbox.WarmPlain
	}
	return sandbox.WarmNone
}

// onDemand runs a work in a sandbox that is made for it and destroyed after it: what a request costs that finds the
// pool empty, less HTTP and the record.
func (r *run) onDemand(ctx context.Context, in *inside, work Work) Sample {
	began := r.Now()
	box, err := in.create(ctx, in.warmest())
	if err != nil {
		return failed(err)
	}
	session, err := in.open(ctx, box)
	if err != nil {
		return failed(err)
	}
	before := r.Now().Sub(began)
	s := r.execute(ctx, session, work)
	s.Result += before
	if err := box.Destroy(ctx); err != nil && s.Err == nil {
		s.Err = err
	}
	in.standing = in.standing[:len(in.standing)-1]
	s.End = r.Now().Sub(began)
	return s
}

// poolEmpty measures sandboxes that are made when they are asked for.
func (r *run) poolEmpty(ctx context.Context, works []Work, report *ScenarioReport) (err error) {
	in, err := r.openInside(ctx)
	if missing, ok := errors.AsType[*missingError](err); ok {
		report.note("Without a pool, in process: %s.", missing.text)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.tearDown()) }()
	rounds := r.samples(30, 2)
	for _, work := range works {
		r.onDemand(ctx, in, work) // the first one starts what all share
		r.say("  %s, %d runs without a pool", work.Name, rounds)
		t := &tally{subject: in.backend.Name() + " in process", work: work.Name, mode: "pool empty"}
		for range rounds {
			t.add(r.onDemand(ctx, in, work))
		}
		report.add(t.rows()...)
	}
	return nil
}

func (in *inside) tearDown() error {
	var faults []error
	for _, box := range in.standing {
		faults = append(faults, box.Destroy(context.Background()))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(engine.ErrShutdown) // nothing runs any more
	return errors.Join(append(faults, in.system.Close(ctx))...)
}

func (r *run) cell(ctx context.Context, report *ScenarioReport) (err error) {
	if err := r.cellsOverHTTP(ctx, report); err != nil {
		return err
	}
	in, err := r.openInside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.tearDown()) }()
	box, err := in.create(ctx, in.warmest())
	if err != nil {
		return err
	}
	session, err := in.open(ctx, box)
	if err != nil {
		return err
	}
	rounds := r.samples(200, 3)
	for _, work := range r.works(printWork(), groupbyWork()) {
		if first := r.execute(ctx, session, work); first.Err != nil { // imports what the next ones have
			return first.Err
		}
		r.say("  %s, %d cells", work.Name, rounds)
		t := &tally{subject: in.backend.Name() + " in process", work: work.Name, mode: "one after the other"}
		for range rounds {
			t.add(r.execute(ctx, session, work))
		}
		report.add(t.rows()...)
	}
	return nil
}

// forksMeasured is how many siblings are made of one session; a sandbox may have 32 sessions.
const forksMeasured = 20

// cellsOverHTTP measures cells and forks of a sandbox that the server holds.
func (r *run) cellsOverHTTP(ctx context.Context, report *ScenarioReport) (err error) {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	box, has, err := c.hold(ctx)
	if err != nil {
		return err
	}
	if !has {
		report.note("Over HTTP: this server has no sandboxes that live between executions.")
		return nil
	}
	defer func() { err = errors.Join(err, box.release(context.WithoutCancel(ctx))) }()
	rounds := r.samples(200, 3)
	for _, work := range r.works(printWork(), groupbyWork()) {
		if first := box.run(ctx, work, r.Now()); first.Err != nil { // imports what the next ones have
			return first.Err
		}
		r.say("  %s over HTTP, %d cells", work.Name, rounds)
		t := &tally{subject: c.Name(), work: work.Name, mode: "over HTTP, one after the other"}
		for range rounds {
			t.add(box.run(ctx, work, r.Now()))
		}
		report.add(t.rows()...)
	}
	t := &tally{subject: c.Name(), work: "fork with data", mode: "over HTTP, one after the other"}
	for range r.samples(forksMeasured, 2) {
		t.add(box.fork(ctx, r.Now()))
	}
	report.add(t.rows()...)
	return nil
}

// execute runs one cell.
func (r *run) execute(ctx context.Context, session sandbox.Session, work Work) Sample {
	var output strings.Builder
	began := r.Now()
	last := began
	result, err := session.Exec(ctx, sandbox.Code{Source: work.Code, Name: "cell.py", Wall: runPatience}, func(e sandbox.Event) {
		last = r.Now()
		if e.Kind == sandbox.EventStdout {
			output.Write(e.Text)
		}
	})
	s := Sample{Result: last.Sub(began), End: r.Now().Sub(began), Faults: unknownFaults, Output: output.String()}
	switch s.Err = work.check(s.Output); {
	case err != nil:
		s.Err = err
	case result.End != sandbox.EndOK:
		s.Err = fmt.Errorf("the cell ended as %s: %s", result.End, result.Detail)
	}
	return s
}

// kind is a sort of sandbox that stands idle.
type kind struct {
	name   string
	warmth sandbox.Warmth
	count  int
	// opened says that its interpreter is started by a hand-out.
	opened bool
}

func (r *run) density(ctx context.Context, report *ScenarioReport) (err error) {
	in, err := r.openInside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.tearDown()) }()
	fewer := max(2, r.Density/3)
	kinds := []kind{{"cold interpreter", sandbox.WarmNone, fewer, true}}
	if in.warm {
		kinds = append(kinds, kind{"ready, plain", sandbox.WarmPlain, r.Density, false}, kind{"ready, chart", sandbox.WarmChart, fewer, false})
	} else {
		kinds[0].count = r.Density
	}
	for _, k := range kinds {
		if err := r.dense(ctx, in, k, report); err != nil {
			return err
		}
	}
	report.Figures = append(report.Figures, Figure{in.backend.Name(), "all kinds", "alive at once", float64(len(in.standing)), "sandboxes"})
	report.note("Charged is what a sandbox's control groups count, those of the guest program included; what all share (keeper, zygotes) is not. Files that are in memory already are not charged again.")
	return nil
}

// dense makes sandboxes of one kind and lets them stand.
func (r *run) dense(ctx context.Context, in *inside, k kind, report *ScenarioReport) error {
	r.say("  %d sandboxes: %s", k.count, k.name)
	t := &tally{subject: in.backend.Name() + " in process", work: k.name, mode: "one after the other"}
	charges := make(map[string][]float64)
	var before int64
	for i := range k.count + 1 {
		began := r.Now()
		box, err := in.create(ctx, k.warmth)
		if err == nil && k.opened {
			_, err = in.open(ctx, box)
		}
		if err != nil {
			return fmt.Errorf("%d sandboxes stand, the next one failed: %w", len(in.standing), err)
		}
		took := r.Now().Sub(began)
		if i == 0 { // it starts and reads what all others share
			if _, before, err = memory(); err != nil {
				return err
			}
			continue
		}
		t.add(Sample{Result: took, End: took, Faults: unknownFaults})
		if err := charge(charges, box.Handle()); err != nil {
			return err
		}
	}
	_, after, err := memory()
	if err != nil {
		return err
	}
	report.add(t.row("made", func(s Sample) (float64, bool) { return milliseconds(s.End), true }))
	for _, what := range []string{chargedAll, chargedKernel, chargedCache} {
		if values := charges[what]; len(values) > 0 {
			report.Figures = append(report.Figures, Figure{in.backend.Name(), k.name, what + ", each, p50", Summarize(values).P50, "MiB"})
		}
	}
	report.Figures = append(report.Figures, Figure{
		in.backend.Name(), k.name, "available memory of the host that went, each", float64(before-after) / float64(k.count) / (1 << 20), "MiB",
	})
	return nil
}

// What a control group tells of its memory.
const (
	chargedAll    = "charged memory, kernel included"
	chargedKernel = "of it kernel memory"
	chargedCache  = "of it files and tmpfs"
)

// charge reads what a sandbox is charged with, in MiB.
func charge(into map[string][]float64, handle sandbox.Handle) error {
	const mib = 1 << 20
	below := filepath.Join(cgroup.Parent, handle.Owner, string(handle.ID))
	for _, root := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		folder := filepath.Join(root, below)
		for _, names := range [][4]string{
			{"memory.usage_in_bytes", "memory.kmem.usage_in_bytes", "", "total_cache"},
			{"memory.current", "", "kernel", "file"},
		} {
			all, err := readNumber(folder, names[0])
			if err != nil {
				continue
			}
			into[chargedAll] = append(into[chargedAll], float64(all)/mib)
			kernel, err := readNumber(folder, names[1])
			if names[2] != "" {
				kernel, err = readField(folder, names[2])
			}
			if err == nil {
				into[chargedKernel] = append(into[chargedKernel], float64(kernel)/mib)
			}
			if cache, err := readField(folder, names[3]); err == nil {
				into[chargedCache] = append(into[chargedCache], float64(cache)/mib)
			}
			return nil
		}
	}
	return &missingError{"the memory of a sandbox's control group cannot be read below /sys/fs/cgroup"}
}

func readNumber(folder, name string) (int64, error) {
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
}

// readField reads one field of memory.stat.
func readField(folder, name string) (int64, error) {
	content, err := os.ReadFile(filepath.Join(folder, "memory.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, os.ErrNotExist
}
