// SPDX-License-Identifier: Apache-2.0

package sandbox

// Facts is what is known when an execution is over. All but Claim and ClaimedExit come from the kernel or our clock.
type Facts struct {
	// Infra, Canceled, Policy, WallTimeout and CPUTimeout say that we ended the run, and why.
	Infra, Canceled, Policy, WallTimeout, CPUTimeout bool
	// OOMKills and PIDRefusals are the kernel's counters, moved during the run.
	OOMKills, PIDRefusals int64
	// Full says that a quota of a writable file system was used up at the end of the run.
	Full bool
	// Exited says that the process is gone: by Signal if that is not zero, otherwise with ExitCode.
	Exited   bool
	Signal   int
	ExitCode int
	// Claim is the interpreter's own word for the cell's end: EndOK, EndError, EndExit, or nothing.
	Claim       End
	ClaimedExit int
}

// Outcome decides how a run ended, by the precedence of Ends, and with which exit code.
func (f Facts) Outcome() (end End, exitCode, signal int) {
	exitCode = f.exitCode()
	failed := exitCode != 0 || f.Claim == EndError
	switch {
	case f.Infra:
		end = EndInfra
	case f.Canceled:
		end = EndCanceled
	case f.Policy:
		end = EndPolicy
	case f.WallTimeout:
		end = EndWallTimeout
	case f.CPUTimeout:
		end = EndCPUTimeout
	case failed && f.OOMKills > 0:
		end = EndOutOfMemory
	case failed && f.PIDRefusals > 0:
		end = EndProcesses
	case failed && f.Full:
		end = EndDisk
	case f.Exited && f.Signal != 0:
		end = EndSignal
	case f.Claim == EndError:
		end = EndError
	case exitCode != 0:
		end = EndExit
	default:
		end = EndOK
	}
	return end, exitCode, f.Signal
}

// exitCode is the kernel's where the process is gone, and otherwise the claim.
func (f Facts) exitCode() int {
	switch {
	case f.Exited && f.Signal != 0:
		return 128 + f.Signal
	case f.Exited:
		return f.ExitCode
	case f.Claim == EndError && f.ClaimedExit == 0:
		return 1
	default:
		return f.ClaimedExit
	}
}
