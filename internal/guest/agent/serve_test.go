// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/agent"
)

// TestDaemonThatLeavesUnread: a daemon that ends with answers unread resets the channel. That is an end like any other; the
// guest called it an error, on the terminal of whoever had cut the output of a run.
func TestDaemonThatLeavesUnread(t *testing.T) {
	for range 20 { // the reset is met in reading or, now and then, in writing
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		daemon, channel := os.NewFile(uintptr(pair[0]), "daemon"), os.NewFile(uintptr(pair[1]), "channel")
		served := make(chan error, 1)
		go func() { served <- agent.New(channel, nil, nil).Serve() }()
		var first [1]byte
		if _, err := daemon.Read(first[:]); err != nil { // the rest of its greeting stays unread
			t.Fatal(err)
		}
		if err := daemon.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		if err := channel.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
