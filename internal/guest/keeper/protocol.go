// SPDX-License-Identifier: Apache-2.0

package keeper

import (
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The control socket is a SOCK_SEQPACKET pair: one JSON object a packet, descriptors beside it.
const (
	// ControlFD is the keeper's end.
	ControlFD = 3
	// MaxPacket bounds a packet in bytes.
	MaxPacket = 4096
	// MaxFDs bounds the descriptors of a packet.
	MaxFDs = 32
)

// Request asks for a box. Its descriptors are those that the first process starts with, from box.ChannelFD on.
type Request struct {
	ID string `json:"id"`
	// Slot chooses the box's uids within the keeper's range; no two living boxes may share one.
	Slot int `json:"slot"`
}

// Report is what the keeper says of a box: once that it was started, with its pidfd, or could not be; and once, later,
// that it ended.
type Report struct {
	ID     string `json:"id"`
	Error  string `json:"error,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Status uint32 `json:"status,omitempty"`
}

// A slot is a block of uids: root, user and nobody of a box. Slot 0 of the range is the keeper's own.
const (
	slotSize = 4
	// RangeSize is how many uids a keeper's range has.
	RangeSize = 65536
	// MaxSlots is how many boxes can be alive at once under one keeper.
	MaxSlots = RangeSize/slotSize - 1
)

// Send writes a packet.
func Send(socket int, v any, files ...*os.File) error {
	packet, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(packet) > MaxPacket || len(files) > MaxFDs {
		return fmt.Errorf("keeper packet of %d bytes with %d descriptors is too large", len(packet), len(files))
	}
	fds := make([]int, len(files))
	for i, file := range files {
		fds[i] = int(file.Fd()) //nolint:gosec // a descriptor
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(socket, packet, rights, nil, unix.MSG_NOSIGNAL)
}

// Receive reads a packet into v. At the end of the connection it returns false.
func Receive(socket int, v any) ([]*os.File, bool, error) {
	packet := make([]byte, MaxPacket)
	control := make([]byte, unix.CmsgSpace(MaxFDs*4))
	n, controlSize, flags, err := receive(socket, packet, control)
	if err != nil {
		return nil, false, err
	}
	files, err := descriptors(control[:controlSize])
	if err != nil {
		return nil, false, err
	}
	if n == 0 {
		return nil, false, nil
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return files, false, fmt.Errorf("keeper packet is longer than %d bytes or has more than %d descriptors", MaxPacket, MaxFDs)
	}
	return files, true, json.Unmarshal(packet[:n], v)
}

func receive(socket int, packet, control []byte) (n, controlSize, flags int, err error) {
	for {
		n, controlSize, flags, _, err = unix.Recvmsg(socket, packet, control, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR { //nolint:errorlint // a plain errno
			return n, controlSize, flags, err
		}
	}
}

func descriptors(control []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for _, message := range messages {
		fds, err := unix.ParseUnixRights(&message)
		if err != nil {
			continue // not descriptors
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received")) //nolint:gosec // a descriptor
		}
	}
	return files, nil
}

// UserOf returns the uid, within the keeper's range, of a slot's user. See startBox.
func UserOf(slot int) int { return slot*slotSize + 1 }
