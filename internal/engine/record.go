// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"time"

	"glovebox/internal/artifact"
	"glovebox/internal/sandbox"
)

// Status is how an execution stands: an End word once it is over.
type Status string

// The words for an execution that is not over.
const (
	StatusQueued  Status = "queued"
	StatusRunning Status = "running"
)

// Over reports whether the execution has ended.
func (s Status) Over() bool { return s != StatusQueued && s != StatusRunning }

// End returns the status of an execution that is over.
func (s Status) End() sandbox.End { return sandbox.End(s) }

// Execution is the record of one run: the object of `run --json`, of the REST answer and of record.json. Times are in
// seconds, sizes in bytes.
type Execution struct {
	ID     sandbox.ID `json:"id"`
	Status Status     `json:"status"`
	// ExitCode is the program's; see ExitCode for the one of the command line.
	ExitCode int `json:"exit_code"`
	// StateReset says that the interpreter of the session is gone with all variables; a new one took its place.
	StateReset bool `json:"state_reset,omitempty"`
	// Message is one sentence about an end other than ok.
	Message string `json:"message,omitempty"`
	// Stdout and Stderr are whole, or both ends with a line about what is left out; Truncated then says so and Output
	// has the totals.
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated"`
	Output    Output `json:"output"`
	// Background is what threads and children of earlier cells of the session printed and displayed meanwhile.
	Background *Background `json:"background,omitempty"`
	// Results are what the code displayed and its last value, in order.
	Results []Data `json:"results"`
	// Values are the variables that the request asked for.
	Values map[string]Data `json:"values,omitempty"`
	// Artifacts are the files that the code left.
	Artifacts []artifact.Artifact `json:"artifacts"`
	// Skipped are files that were left out, by reason.
	Skipped []artifact.Skip `json:"skipped_files,omitempty"`
	// Error is the exception that ended the code.
	Error    *sandbox.Fault   `json:"error"`
	Usage    Usage            `json:"usage"`
	Limits   map[string]Limit `json:"limits"`
	Policy   string           `json:"policy"`
	Image    string           `json:"image"`
	Backend  string           `json:"backend"`
	Warnings []sandbox.Notice `json:"warnings"`
	Created  time.Time        `json:"created"`
	// Tenant owns the execution; Key names the API key it was asked for with, if it was one.
	Tenant string `json:"tenant"`
	Key    string `json:"key,omitempty"`
}

// Data is one value in several forms by MIME type: text as a JSON string, binary types as base64, JSON types as JSON.
type Data map[string]json.RawMessage

// Output is what became of both streams.
type Output struct {
	Stdout StreamTotals `json:"stdout"`
	Stderr StreamTotals `json:"stderr"`
}

// StreamTotals count one stream in bytes.
type StreamTotals struct {
	// Bytes is what the program printed.
	Bytes int64 `json:"bytes"`
	// Kept is how much of it, from its beginning, can be downloaded.
	Kept int64 `json:"kept_bytes"`
	// Omitted is how much of it is not in the record.
	Omitted int64 `json:"omitted_bytes"`
}

// backgroundName is that of the stream of earlier cells.
const backgroundName = "background"

// Background is what did not come from the running cell: both streams in one, whole or both ends.
type Background struct {
	Text string `json:"text"`
	StreamTotals
	Results []Data `json:"results,omitempty"`
}

// Usage is what the run used.
type Usage struct {
	Wall         float64 `json:"wall_seconds"`
	CPU          float64 `json:"cpu_seconds"`
	MemoryPeak   int64   `json:"memory_peak_bytes"`
	PIDsPeak     int64   `json:"processes_peak,omitempty"`
	OOMKills     int64   `json:"oom_kills,omitempty"`
	PIDRefusals  int64   `json:"process_refusals,omitempty"`
	StdoutBytes  int64   `json:"stdout_bytes"`
	StderrBytes  int64   `json:"stderr_bytes"`
	ArtifactSize int64   `json:"artifact_bytes"`
	// PoolHit says that the sandbox stood ready when it was asked for.
	PoolHit bool `json:"pool_hit"`
	// Queue is the wait for a place, Setup the time from then until the code began, Total all of it.
	Queue float64 `json:"queue_seconds"`
	Setup float64 `json:"setup_seconds"`
	Total float64 `json:"total_seconds"`
}

// Limit is one limit, and whether the run met it.
type Limit struct {
	Value    float64  `json:"value"`
	Hit      bool     `json:"hit"`
	Measured *float64 `json:"measured,omitempty"`
}

// limitsOf describes the limits of a run.
func limitsOf(l sandbox.Limits, hits []sandbox.Hit) map[string]Limit {
	limits := map[string]Limit{
		string(sandbox.LimitWall):      {Value: l.Wall.Seconds()},
		string(sandbox.LimitCPUTime):   {Value: l.CPUTime.Seconds()},
		string(sandbox.LimitMemory):    {Value: float64(l.Memory)},
		"milli_cpu":                    {Value: float64(l.MilliCPU)},
		string(sandbox.LimitProcesses): {Value: float64(l.Processes)},
		"open_files":                   {Value: float64(l.OpenFiles)},
		string(sandbox.LimitDisk):      {Value: float64(l.Disk)},
		string(sandbox.LimitInodes):    {Value: float64(l.Inodes)},
		string(sandbox.LimitTmp):       {Value: float64(l.Tmp)},
		string(sandbox.LimitOutput):    {Value: float64(l.Output)},
	}
	if l.DiskBandwidth != nil {
		limits["disk_bandwidth"] = Limit{Value: float64(*l.DiskBandwidth)}
	}
	for _, hit := range hits {
		name := string(hit.Limit)
		limit, asked := limits[name]
		if !asked { // one that no request sets
			limit.Value = float64(hit.Value)
		}
		measured := float64(hit.Measured)
		if hit.Limit == sandbox.LimitWall || hit.Limit == sandbox.LimitCPUTime {
			measured = time.Duration(hit.Measured).Seconds()
		}
		limit.Hit, limit.Measured = true, &measured
		limits[name] = limit
	}
	return limits
}

// The exit codes of the command line that are not the program's.
const (
	ExitPolicy   = 3
	ExitUsage    = 64
	ExitInfra    = 70
	ExitTimeout  = 124
	ExitCanceled = 130
	ExitMemory   = 137
)

// CommandExitCode is the exit code with which a command that ran this execution leaves.
func (x *Execution) CommandExitCode() int {
	failed := max(1, x.ExitCode)
	switch x.Status.End() {
	case sandbox.EndOK:
		return 0
	case sandbox.EndInfra:
		return ExitInfra
	case sandbox.EndCanceled:
		return ExitCanceled
	case sandbox.EndPolicy:
		return ExitPolicy
	case sandbox.EndWallTimeout, sandbox.EndCPUTimeout, sandbox.EndExpired:
		return ExitTimeout
	case sandbox.EndOutOfMemory:
		return ExitMemory
	case sandbox.EndProcesses, sandbox.EndDisk, sandbox.EndSignal, sandbox.EndExit, sandbox.EndError:
		return failed
	}
	return ExitInfra
}
