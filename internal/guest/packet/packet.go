// SPDX-License-Identifier: Apache-2.0

// Package packet carries small JSON objects with descriptors beside them over SOCK_SEQPACKET sockets: between the
// daemon, its keepers and zygotes, and the guests, all of them our own programs.
package packet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// MaxSize bounds a packet in bytes.
	MaxSize = 64 << 10
	// MaxFDs bounds the descriptors of a packet.
	MaxFDs = 32
)

// Send writes a packet.
func Send(socket int, v any, files ...*os.File) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(content) > MaxSize || len(files) > MaxFDs {
		return fmt.Errorf("packet of %d bytes with %d descriptors is too large", len(content), len(files))
	}
	fds := make([]int, len(files))
	for i, file := range files {
		fds[i] = int(file.Fd())
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(socket, content, rights, nil, unix.MSG_NOSIGNAL)
}

// Receive reads a packet into v. At the end of the connection it returns false.
func Receive(socket int, v any) ([]*os.File, bool, error) {
	content := make([]byte, MaxSize)
	control := make([]byte, unix.CmsgSpace(MaxFDs*4))
	n, controlSize, flags, err := receive(socket, content, control)
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
		return files, false, fmt.Errorf("packet is longer than %d bytes or has more than %d descriptors", MaxSize, MaxFDs)
	}
	return files, true, json.Unmarshal(content[:n], v)
}

func receive(socket int, content, control []byte) (n, controlSize, flags int, err error) {
	for {
		n, controlSize, flags, _, err = unix.Recvmsg(socket, content, control, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
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
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}
