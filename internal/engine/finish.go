// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// collect takes the files that the code left, host-side, now that nothing in the sandbox is alive.
func (x *execution) collect() {
	ctx, cancel := context.WithTimeoutCause(context.Background(), x.engine.Patience.Collect, errWatchdog)
	defer cancel()
	var workspace *os.File
	err := x.cleanup("open the working folder", func(ctx context.Context) (err error) {
		workspace, err = x.box.Workspace(ctx)
		return err
	})
	if err != nil {
		x.gather.warn("artifacts_not_collected", "the files that the code left could not be read: "+plain(err))
		return
	}
	defer workspace.Close()
	inputs := make(map[string]bool, len(x.request.Files))
	for _, file := range x.request.Files {
		inputs[file.Name] = true
	}
	var report artifact.Report
	artifacts, err := x.folder.forArtifacts()
	if err == nil {
		report, err = artifact.Collect(ctx, workspace, artifacts, artifact.Options{Limits: x.engine.Artifacts, Inputs: inputs})
	}
	if err != nil {
		x.engine.Log.Error("collecting artifacts failed", "id", x.id, "error", err)
		x.gather.warn("artifacts_incomplete", "not all files that the code left could be stored: "+plain(err))
	}
	if report.Artifacts != nil {
		x.record.Artifacts = report.Artifacts
	}
	x.record.Skipped = report.Skipped
	x.record.Usage.ArtifactSize = report.Total()
	for _, skip := range report.Skipped {
		if skip.Reason != artifact.ReasonHidden {
			x.gather.warn("file_skipped", describeSkip(skip, x.engine.Artifacts))
		}
	}
	for _, excess := range report.Excesses {
		x.result.Hits = append(x.result.Hits, sandbox.Hit{
			Limit: artifactLimits()[excess.Reason], Measured: excess.Measured, Value: excess.Value,
		})
	}
}

// artifactLimits names the limits of what is taken.
func artifactLimits() map[artifact.Reason]sandbox.LimitName {
	return map[artifact.Reason]sandbox.LimitName{
		artifact.ReasonCount: sandbox.LimitArtifacts, artifact.ReasonTooLarge: sandbox.LimitArtifactSize,
		artifact.ReasonTotal: sandbox.LimitArtifactTotal, artifact.ReasonDepth: sandbox.LimitArtifactDepth,
		artifact.ReasonFolders: sandbox.LimitArtifactFolders, artifact.ReasonEntries: sandbox.LimitArtifactEntries,
	}
}

func describeSkip(skip artifact.Skip, limits artifact.Limits) string {
	why := map[artifact.Reason]string{
		artifact.ReasonLink:       "links are not followed",
		artifact.ReasonSpecial:    "they are no regular files",
		artifact.ReasonMount:      "they are on another file system",
		artifact.ReasonHidden:     "their names begin with a dot",
		artifact.ReasonTooLarge:   "a file may have " + policy.FormatSize(limits.Single),
		artifact.ReasonTotal:      "all files together may have " + policy.FormatSize(limits.Total),
		artifact.ReasonCount:      fmt.Sprintf("at most %d files are taken", limits.Count),
		artifact.ReasonDepth:      fmt.Sprintf("at most %d folders may stand above a file", limits.Depth),
		artifact.ReasonFolders:    fmt.Sprintf("at most %d folders are read", limits.Folders),
		artifact.ReasonEntries:    fmt.Sprintf("at most %d entries are read, and these have more", limits.Entries),
		artifact.ReasonChanged:    "they changed while they were read",
		artifact.ReasonUnreadable: "they cannot be read",
		artifact.ReasonStopped:    "there was no time left",
	}[skip.Reason]
	names := strings.Join(skip.Names, ", ")
	if skip.Count > len(skip.Names) {
		names += ", ..."
	}
	return fmt.Sprintf("%d left out (%s): %s", skip.Count, names, why)
}

// finish writes the record.
func (x *execution) finish(arrived time.Time) {
	r, result := x.record, x.result
	x.outputHits(&result)
	x.gather.fill(r)
	r.Status, r.ExitCode = Status(result.End), result.ExitCode
	r.StateReset = x.session != nil && result.StateReset
	r.Message = explain(result, x.decision.Limits)
	r.Limits = limitsOf(x.decision.Limits, result.Hits)
	u := &r.Usage
	u.Wall, u.CPU, u.MemoryPeak = result.Usage.Wall.Seconds(), result.Usage.CPU.Seconds(), result.Usage.MemoryPeak
	u.PIDsPeak, u.OOMKills, u.PIDRefusals = result.Usage.PIDsPeak, result.Usage.OOMKills, result.Usage.PIDRefusals
	u.Total = x.engine.Now().Sub(arrived).Seconds()
	ctx, cancel := x.engine.recording()
	defer cancel()
	if err := x.folder.keep(ctx, r, x.request.Code); err != nil {
		x.engine.Log.Error("storing a record failed", "id", x.id, "error", err)
		x.gather.warn("not_stored", "the record could not be stored, so it cannot be fetched later: "+plain(err))
		r.Warnings = x.gather.warnings
	}
}

// outputHits adds the output limit where a stream met it.
func (x *execution) outputHits(result *sandbox.Result) {
	limit := x.decision.Limits.Output
	most := max(x.gather.stdout.totals(0).Bytes, x.gather.stderr.totals(0).Bytes)
	if most > limit {
		result.Hits = append(result.Hits, sandbox.Hit{Limit: sandbox.LimitOutput, Measured: most, Value: limit})
	}
}

// saveLost keeps the record that is true if this process dies before the run ends.
func (e *Engine) saveLost(p *plan, status Status) error {
	lost := p.blank(Status(sandbox.EndInfra))
	lost.Message = "the server ended while this ran: run it again"
	ctx, cancel := e.recording()
	defer cancel()
	if err := e.Store.put(ctx, lost, status, 0, p.request.Code); err != nil {
		return &Problem{Code: CodeStorage, Err: err, Text: "the execution cannot be recorded, so it was not begun: " + plain(err)}
	}
	return nil
}

// recording bounds the keeping of a record, which happens although the caller may be gone.
func (e *Engine) recording() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), e.Patience.Cleanup, errWatchdog)
}

func (x *execution) closeFolder() {
	if err := x.folder.close(); err != nil {
		x.engine.Log.Warn("closing the folder of an execution failed", "id", x.id, "error", err)
	}
}

// checkResult turns what a backend cannot mean into a failure of ours.
func checkResult(r sandbox.Result) sandbox.Result {
	r.Usage = checkUsage(r.Usage)
	r.Detail = boundText(r.Detail, MaxDetail)
	r.Hits = slices.DeleteFunc(r.Hits, func(h sandbox.Hit) bool { return !knownLimit(h.Limit) || h.Measured < 0 || h.Value < 0 })
	const mostExit, mostSignal = 255, 64
	switch {
	case !slices.Contains(sandbox.Ends(), r.End):
		r.Detail = fmt.Sprintf("the backend reported the unknown end %q", clip(strings.ToValidUTF8(string(r.End), "?"), 40))
		r.End = sandbox.EndInfra
	case r.End == sandbox.EndExpired:
		r.Detail, r.End = "the backend reported the end of a lease, which it does not keep", sandbox.EndInfra
	case r.ExitCode < 0 || r.ExitCode > mostExit || r.Signal < 0 || r.Signal > mostSignal:
		r.Detail = fmt.Sprintf("the backend reported the impossible exit code %d and signal %d", r.ExitCode, r.Signal)
		r.End = sandbox.EndInfra
	case r.End == sandbox.EndOK:
		r.ExitCode = 0
	case r.End == sandbox.EndError || r.End == sandbox.EndExit:
		r.ExitCode = max(1, r.ExitCode)
	}
	r.ExitCode, r.Signal = min(max(r.ExitCode, 0), mostExit), min(max(r.Signal, 0), mostSignal)
	return r
}

func knownLimit(name sandbox.LimitName) bool {
	switch name {
	case sandbox.LimitWall, sandbox.LimitCPUTime, sandbox.LimitMemory, sandbox.LimitProcesses, sandbox.LimitDisk,
		sandbox.LimitInodes, sandbox.LimitTmp, sandbox.LimitOutput, sandbox.LimitArtifacts, sandbox.LimitArtifactSize,
		sandbox.LimitArtifactTotal, sandbox.LimitArtifactDepth, sandbox.LimitArtifactFolders, sandbox.LimitArtifactEntries:
		return true
	}
	return false
}

// checkUsage takes negative counters for none.
func checkUsage(u sandbox.Usage) sandbox.Usage {
	u.Wall, u.CPU = max(0, u.Wall), max(0, u.CPU)
	u.MemoryPeak, u.PIDsPeak = max(0, u.MemoryPeak), max(0, u.PIDsPeak)
	u.OOMKills, u.PIDRefusals = max(0, u.OOMKills), max(0, u.PIDRefusals)
	return u
}
