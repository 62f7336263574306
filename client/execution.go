// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"time"
)

// Status is how an execution stands.
type Status string

// The words for how an execution stands. All but the first two are ends.
const (
	StatusQueued      Status = "queued"
	StatusRunning     Status = "running"
	StatusOK          Status = "ok"
	StatusError       Status = "error"         // an exception: Execution.Error
	StatusExit        Status = "exit"          // the program left with ExitCode
	StatusSignal      Status = "signal"        // a signal ended it
	StatusWallTimeout Status = "wall_timeout"  // it ran longer than the limit
	StatusCPUTimeout  Status = "cpu_timeout"   // it used more processor time than the limit
	StatusOutOfMemory Status = "out_of_memory" // it needed more memory than the limit
	StatusProcesses   Status = "pids"          // it failed, and had tried to start more processes than the limit
	StatusDisk        Status = "disk"          // it failed, and had tried to write more than the limit
	StatusPolicy      Status = "policy"        // the policy refused it
	StatusExpired     Status = "expired"       // its sandbox ended before it
	StatusCanceled    Status = "canceled"      // the caller left, or deleted it
	StatusInfra       Status = "infra"         // the service failed, not the code
)

// Over reports whether the execution has ended.
func (s Status) Over() bool { return s != StatusQueued && s != StatusRunning }

// Execution is the record of one run. Times are in seconds, sizes in bytes. All that the program printed and left is its
// claim; limits, usage, exit codes and how it ended are the kernel's and the server's word, but that ok and error are the
// program's own.
type Execution struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	// ExitCode is the program's.
	ExitCode int `json:"exit_code"`
	// StateReset says that the session's interpreter is gone with all variables; a new one took its place.
	StateReset bool `json:"state_reset,omitempty"`
	// Message is one sentence about an end other than ok.
	Message string `json:"message,omitempty"`
	// Stdout and Stderr are whole, or both ends with a line about what is left out: Truncated and Output say so.
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated"`
	Output    Output `json:"output"`
	// Background is what threads and children of earlier cells of the session printed and displayed meanwhile.
	Background *Background `json:"background,omitempty"`
	// Results are what the code displayed and its last value, in order.
	Results []Data `json:"results"`
	// Values are the variables that Request.Return named.
	Values map[string]Data `json:"values,omitempty"`
	// Artifacts are the files that the code left; see Client.Artifact.
	Artifacts []Artifact `json:"artifacts"`
	// Skipped are files that were left out, by reason.
	Skipped []Skip `json:"skipped_files,omitempty"`
	// Error is the exception that ended the code.
	Error *Fault `json:"error"`
	Usage Usage  `json:"usage"`
	// Limits are by name: wall, cpu_time, memory, milli_cpu, processes, open_files, disk, inodes, tmp, output, ...
	Limits  map[string]Limit `json:"limits"`
	Policy  string           `json:"policy"`
	Image   string           `json:"image"`
	Backend string           `json:"backend"`
	// Warnings are what the user should know.
	Warnings []Notice  `json:"warnings"`
	Created  time.Time `json:"created"`
	// Tenant owns the execution; Key is the id of the API key that asked for it.
	Tenant string `json:"tenant"`
	Key    string `json:"key,omitempty"`
}

// Data is one value in several forms, by MIME type: text as a JSON string, binary types as base64 in one, JSON types as JSON.
type Data map[string]json.RawMessage

// Text returns the form text/plain, or nothing.
func (d Data) Text() string {
	var text string
	if json.Unmarshal(d["text/plain"], &text) != nil {
		return ""
	}
	return text
}

// Output is what became of both streams.
type Output struct {
	Stdout StreamTotals `json:"stdout"`
	Stderr StreamTotals `json:"stderr"`
}

// StreamTotals count one stream in bytes.
type StreamTotals struct {
	// Bytes is what the program printed, Kept how much of its beginning can be downloaded with Client.Output, Omitted how
	// much of it is not in the record.
	Bytes   int64 `json:"bytes"`
	Kept    int64 `json:"kept_bytes"`
	Omitted int64 `json:"omitted_bytes"`
}

// Background is what did not come from the running cell: both streams in one.
type Background struct {
	Text string `json:"text"`
	StreamTotals
	Results []Data `json:"results,omitempty"`
}

// Artifact is a file that the code left.
type Artifact struct {
	// Name is safe for file systems and unique in its execution; folders are divided by slashes.
	Name string `json:"name"`
	Size int64  `json:"size"`
	// MIME is guessed from the content.
	MIME   string `json:"mime"`
	SHA256 string `json:"sha256"`
}

// Skip is a summary of files that were not kept, for one reason.
type Skip struct {
	// Reason is a word: link, special, hidden, too_large, total_size, count, ...
	Reason string `json:"reason"`
	Count  int    `json:"count"`
	// Names are the first few.
	Names []string `json:"names"`
}

// Fault is a program's uncaught exception.
type Fault struct {
	Name      string `json:"name"`
	Value     string `json:"value"`
	Traceback string `json:"traceback"`
}

// Notice is a warning with a stable code.
type Notice struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Usage is what a run used.
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
	// PoolHit says that a warm sandbox stood ready.
	PoolHit bool `json:"pool_hit"`
	// Queue is the wait for a place, Setup the time from then until the code began, Total all of it.
	Queue float64 `json:"queue_seconds"`
	Setup float64 `json:"setup_seconds"`
	Total float64 `json:"total_seconds"`
}

// Limit is one limit, and whether the run met it: seconds, bytes or a count.
type Limit struct {
	Value    float64  `json:"value"`
	Hit      bool     `json:"hit"`
	Measured *float64 `json:"measured,omitempty"`
}
