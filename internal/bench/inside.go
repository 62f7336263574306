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
		backend: backend, system: system, limits: decision.Limits, newID: engine.NewIDs(),
		class: sandbox.Class{Image: r.image.Digest, Profile: decision.Profile, Network: decision.Network},
	}
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

// session makes a sandbox with an interpreter.
func (in *inside) session(ctx context.Context) (sandbox.Sandbox, sandbox.Session, error) {
	box, err := in.backend.Create(ctx, in.newID(), in.class)
	if err != nil {
		return nil, nil, err
	}
	in.standing = append(in.standing, box)
	if err := box.Lease(ctx, sandbox.Lease{Limits: in.limits}); err != nil {
		return nil, nil, err
	}
	session, err := box.Open(ctx, sandbox.OpenSpec{Language: "python"})
	return box, session, err
}

func (in *inside) close() error {
	var faults []error
	for _, box := range in.standing {
		faults = append(faults, box.Destroy(context.Background()))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(engine.ErrShutdown) // nothing runs any more
	return errors.Join(append(faults, in.system.Close(ctx))...)
}

func (r *run) cell(ctx context.Context, report *ScenarioReport) (err error) {
	if err := r.noteSessions(ctx, report); err != nil {
		return err
	}
	in, err := r.openInside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	_, session, err := in.session(ctx)
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

// noteSessions says whether the HTTP interface has sessions that could be measured.
func (r *run) noteSessions(ctx context.Context, report *ScenarioReport) error {
	c, err := r.client(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	has, err := c.hasSessions(ctx)
	if err != nil {
		return err
	}
	text := "Over HTTP: not there yet, the interface has no sessions. Measured in process on the backend."
	if has {
		text = "Over HTTP: the interface has sessions, which this scenario does not measure yet. Measured in process on the backend."
	}
	report.note("%s", text)
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

func (r *run) density(ctx context.Context, report *ScenarioReport) (err error) {
	in, err := r.openInside(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	r.say("  %d sandboxes", r.Density)
	if _, _, err := in.session(ctx); err != nil { // the first one reads files that all others find in memory
		return err
	}
	_, before, err := memory()
	if err != nil {
		return err
	}
	t := &tally{subject: in.backend.Name() + " in process", work: "-", mode: "one after the other"}
	charges := make(map[string][]float64)
	for range r.Density {
		began := r.Now()
		box, _, err := in.session(ctx)
		if err != nil {
			return fmt.Errorf("%d sandboxes stand, the next one failed: %w", len(in.standing)-1, err)
		}
		took := r.Now().Sub(began)
		t.add(Sample{Result: took, End: took, Faults: unknownFaults})
		if err := charge(charges, box.Handle()); err != nil {
			return err
		}
	}
	_, after, err := memory()
	if err != nil {
		return err
	}
	report.add(t.row("made, with an idle interpreter", func(s Sample) (float64, bool) { return milliseconds(s.End), true }))
	report.densityFigures(in.backend.Name(), charges, float64(before-after)/float64(r.Density)/(1<<20), len(in.standing))
	return nil
}

func (s *ScenarioReport) densityFigures(backend string, charges map[string][]float64, host float64, standing int) {
	add := func(name string, value float64, unit string) {
		s.Figures = append(s.Figures, Figure{backend, "idle interpreter", name, value, unit})
	}
	add("alive at once", float64(standing), "sandboxes")
	for _, kind := range []string{chargedAll, chargedKernel, chargedCache} {
		if values := charges[kind]; len(values) > 0 {
			add(kind+", each, p50", Summarize(values).P50, "MiB")
		}
	}
	add("available memory of the host that went, each", host, "MiB")
	s.note("Charged is what the sandbox's control groups count, the guest program's included; the keeper that all share is not. Files that are in memory for the first sandbox already are not charged to the later ones.")
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
