// SPDX-License-Identifier: Apache-2.0

// The guest is the small static program that runs inside every sandbox. It is embedded in the glovebox binary, which
// starts it; it is of no use by itself.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/agent"
	"glovebox/internal/guest/box"
	"glovebox/internal/guest/confine"
	"glovebox/internal/guest/fileserver"
	"glovebox/internal/guest/keeper"
	"glovebox/internal/guest/zygote"
)

// exitFailed is the exit code of a guest that could not do its work.
const exitFailed = 70

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(exitFailed)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("this program is started by glovebox; it has no use by itself")
	}
	switch args[0] {
	case keeper.ProbeCommand:
		return nil
	case keeper.ProbeProcCommand:
		return keeper.ProbeProc()
	case keeper.Command:
		return keeper.Main()
	case keeper.InitCommand:
		return serveBox()
	case keeper.ZygoteCommand:
		return zygote.Main()
	case confine.Command:
		return confine.Main()
	case fileserver.Command:
		return fileserver.Serve(os.NewFile(box.ChannelFD, "channel"))
	default:
		return fmt.Errorf("unknown role %q", args[0])
	}
}

// heapLimit makes the collector work harder before the guest meets the limit of its control group (64 MiB).
const heapLimit = 40 << 20

func serveBox() error {
	cgroups, without, err := box.Init()
	if errors.Is(err, box.ErrDaemonGone) {
		return nil
	}
	if err != nil {
		return err
	}
	// Non-blocking, so that waiting for the daemon holds no thread.
	if err := unix.SetNonblock(box.ChannelFD, true); err != nil {
		return err
	}
	debug.SetMemoryLimit(heapLimit)
	served := agent.New(os.NewFile(box.ChannelFD, "channel"), cgroups, without)
	go served.ServeLane(box.LaneFD)
	return served.Serve()
}
