// SPDX-License-Identifier: Apache-2.0

package box

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/layer"
	"glovebox/internal/guest/packet"
)

// Setup is what the first process of a box answers on its lane, with the writable folders beside it when Error is empty.
type Setup struct {
	Error string `json:"error,omitempty"`
}

// ErrDaemonGone says that the daemon gave the box up while it was built. Nobody is left to be told.
var ErrDaemonGone = errors.New("the daemon is gone")

// Init builds the box, hands its writable folders to the daemon and gives up what the guest does not need. It returns
// the descriptors of the user's cgroup.procs files, and the layers that what it starts goes without.
func Init() ([]int, layer.Set, error) {
	var spec Spec
	cgroups, handles, err := initBox(&spec)
	answer := Setup{}
	if err != nil {
		answer.Error = err.Error()
	}
	var files []*os.File
	for _, file := range handles.Files() {
		if file != nil {
			files = append(files, file)
		}
	}
	if sendErr := packet.Send(LaneFD, answer, files...); errors.Is(sendErr, unix.EPIPE) || errors.Is(sendErr, unix.ECONNRESET) {
		err = errors.Join(err, ErrDaemonGone)
	} else if sendErr != nil {
		err = errors.Join(err, fmt.Errorf("answer the daemon: %w", sendErr))
	}
	return cgroups, spec.Without, errors.Join(err, closeAll(files))
}

func initBox(spec *Spec) ([]int, Handles, error) {
	if _, more, err := packet.Receive(LaneFD, spec); err != nil || !more {
		return nil, Handles{}, fmt.Errorf("read the box's description: %w", cmp.Or(err, ErrDaemonGone))
	}
	if err := spec.Without.Check(); err != nil {
		return nil, Handles{}, err
	}
	handles, err := Build(*spec)
	if err != nil {
		return nil, Handles{}, err
	}
	cgroups := make([]int, spec.UserCgroups)
	for i := range cgroups {
		cgroups[i] = FirstCgroupFD + spec.GuestCgroups + i
		unix.CloseOnExec(cgroups[i])
	}
	unix.CloseOnExec(ChannelFD)
	unix.CloseOnExec(LaneFD)
	return cgroups, handles, Harden(spec.Without)
}
