// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"glovebox/internal/policy"
	"glovebox/internal/sandbox"
)

// explain says in a sentence how a run ended; nothing for ok, and for an exception, which speaks for itself.
func explain(r sandbox.Result, l sandbox.Limits) string {
	withDetail := func(text string) string {
		if r.Detail == "" {
			return text
		}
		return text + ": " + r.Detail
	}
	switch r.End {
	case sandbox.EndOK, sandbox.EndError:
		return ""
	case sandbox.EndInfra:
		return withDetail("the run failed because of the service, not of the code")
	case sandbox.EndCanceled:
		return withDetail("the run was canceled")
	case sandbox.EndExpired:
		return withDetail("the code was ended with its sandbox")
	case sandbox.EndPolicy:
		return withDetail("the code was refused by the policy")
	case sandbox.EndWallTimeout:
		return fmt.Sprintf("the code ran longer than the limit of %v and was ended", l.Wall)
	case sandbox.EndCPUTimeout:
		return fmt.Sprintf("the code used more processor time than the limit of %v and was ended", l.CPUTime)
	case sandbox.EndOutOfMemory:
		return fmt.Sprintf("the code needed more memory than the limit of %s and was ended by the kernel", policy.FormatSize(l.Memory))
	case sandbox.EndProcesses:
		return fmt.Sprintf("the code tried to have more than %d processes and threads", l.Processes)
	case sandbox.EndDisk:
		return fmt.Sprintf("the code tried to write more than its disk holds: %s in the working folder, %s in /tmp, %d files",
			policy.FormatSize(l.Disk), policy.FormatSize(l.Tmp), l.Inodes)
	case sandbox.EndSignal:
		return fmt.Sprintf("the code ended by signal %d%s", r.Signal, signalName(r.Signal))
	case sandbox.EndExit:
		return fmt.Sprintf("the code left with exit code %d", r.ExitCode)
	}
	return ""
}

func signalName(signal int) string {
	name, ok := map[int]string{
		1: "hang-up", 2: "interrupt", 3: "quit", 4: "illegal instruction", 6: "abort", 7: "bus error",
		8: "arithmetic error", 9: "kill", 11: "segmentation fault", 13: "broken pipe", 15: "termination", 31: "forbidden system call",
	}[signal]
	if !ok {
		return ""
	}
	return " (" + name + ")"
}
