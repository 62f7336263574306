// SPDX-License-Identifier: Apache-2.0

package box

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxSpec bounds the bytes of a Spec on SetupFD.
const maxSpec = 4096

// Setup is what the first process of a box answers on SetupFD, with the writable folders beside it when Error is empty.
type Setup struct {
	Error string `json:"error,omitempty"`
}

// Init builds the box, hands its writable folders to the daemon and gives up what the guest does not need. It returns
// the descriptors of the user's cgroup.procs files.
func Init() ([]int, error) {
	setup := os.NewFile(SetupFD, "setup")
	defer setup.Close() //nolint:errcheck // nothing to lose
	cgroups, handles, err := initBox(setup)
	answer := Setup{}
	if err != nil {
		answer.Error = err.Error()
	}
	packet, marshalErr := json.Marshal(answer)
	if marshalErr != nil {
		return nil, marshalErr
	}
	var fds []int
	for _, file := range handles.Files() {
		if file != nil {
			fds = append(fds, int(file.Fd())) //nolint:gosec // a descriptor
		}
	}
	if sendErr := unix.Sendmsg(SetupFD, packet, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); sendErr != nil {
		err = errors.Join(err, fmt.Errorf("answer the daemon: %w", sendErr))
	}
	return cgroups, errors.Join(err, closeAll(handles.Files()))
}

func initBox(setup io.Reader) ([]int, Handles, error) {
	var spec Spec
	if err := json.NewDecoder(io.LimitReader(setup, maxSpec)).Decode(&spec); err != nil {
		return nil, Handles{}, fmt.Errorf("read the box's description: %w", err)
	}
	handles, err := Build(spec)
	if err != nil {
		return nil, Handles{}, err
	}
	cgroups := make([]int, spec.UserCgroups)
	for i := range cgroups {
		cgroups[i] = FirstCgroupFD + spec.GuestCgroups + i
		unix.CloseOnExec(cgroups[i])
	}
	unix.CloseOnExec(ChannelFD)
	return cgroups, handles, Harden()
}
