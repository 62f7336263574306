// SPDX-License-Identifier: Apache-2.0

package sandbox

import "time"

// End is the one reason why an execution ended. Only EndOK, EndError and EndExit are the program's own claim; the
// others are read from the kernel and from our clock.
type End string

// The ends, in order of precedence: when several are true the first one is reported. Processes and disk are the end
// only when the run failed and the kernel's counter moved.
const (
	EndInfra       End = "infra"         // we failed; the program is not to blame
	EndCanceled    End = "canceled"      // the caller gave up
	EndExpired     End = "expired"       // the lease of the held sandbox was over; the engine keeps leases, no backend reports this
	EndPolicy      End = "policy"        // refused before or stopped during the run by a rule
	EndWallTimeout End = "wall_timeout"  // Limits.Wall
	EndCPUTimeout  End = "cpu_timeout"   // Limits.CPUTime
	EndOutOfMemory End = "out_of_memory" // Limits.Memory
	EndProcesses   End = "pids"          // Limits.Processes
	EndDisk        End = "disk"          // Limits.Disk, Limits.Inodes or Limits.Tmp
	EndSignal      End = "signal"        // a signal that was not ours
	EndExit        End = "exit"          // the program left with an exit code other than zero
	EndError       End = "error"         // an uncaught exception
	EndOK          End = "ok"
)

// Ends returns every End in order of precedence.
func Ends() []End {
	return []End{
		EndInfra, EndCanceled, EndExpired, EndPolicy, EndWallTimeout, EndCPUTimeout, EndOutOfMemory, EndProcesses, EndDisk,
		EndSignal, EndExit, EndError, EndOK,
	}
}

// LimitName names a limit in a Hit.
type LimitName string

// The limits that a run can hit.
const (
	LimitWall      LimitName = "wall"
	LimitCPUTime   LimitName = "cpu_time"
	LimitMemory    LimitName = "memory"
	LimitProcesses LimitName = "processes"
	LimitDisk      LimitName = "disk"
	LimitInodes    LimitName = "inodes"
	LimitTmp       LimitName = "tmp"
	LimitOutput    LimitName = "output"

	// Those of the files that a run left: how many, the size of one and of all, the folders above one, and what is read.
	LimitArtifacts       LimitName = "artifacts"
	LimitArtifactSize    LimitName = "artifact_size"
	LimitArtifactTotal   LimitName = "artifact_total"
	LimitArtifactDepth   LimitName = "artifact_depth"
	LimitArtifactFolders LimitName = "artifact_folders"
	LimitArtifactEntries LimitName = "artifact_entries"
)

// Hit is a limit that a run met, with what was measured. Units are those of the field of Limits: bytes, nanoseconds or
// a count.
type Hit struct {
	Limit    LimitName `json:"limit"`
	Measured int64     `json:"measured"`
	Value    int64     `json:"value"`
}

// Result is how one execution ended.
type Result struct {
	End End `json:"end"`
	// ExitCode is the program's; 128 plus the signal after a signal, as shells report it.
	ExitCode int `json:"exit_code"`
	// Signal is the number of the signal that ended the program, or zero.
	Signal int `json:"signal,omitempty"`
	// Hits are all the limits that were met, whether or not they ended the run.
	Hits []Hit `json:"hits,omitempty"`
	// StateReset says that the interpreter is gone: variables of the session are lost.
	StateReset bool  `json:"state_reset,omitempty"`
	Usage      Usage `json:"usage"`
	// Detail explains an EndInfra or an EndPolicy to a person.
	Detail string `json:"detail,omitempty"`
}

// Usage is what a run used, from the kernel's counters.
type Usage struct {
	Wall       time.Duration `json:"wall_ns"`
	CPU        time.Duration `json:"cpu_ns"`
	MemoryPeak int64         `json:"memory_peak_bytes"`
	// PIDsPeak is zero where the kernel does not keep it.
	PIDsPeak int64 `json:"processes_peak,omitempty"`
	// OOMKills and PIDRefusals count the kernel's events since the sandbox was handed out.
	OOMKills    int64 `json:"oom_kills,omitempty"`
	PIDRefusals int64 `json:"pid_refusals,omitempty"`
}
