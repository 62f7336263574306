// SPDX-License-Identifier: Apache-2.0

package rootless

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// forward passes signals on to the second process until stop is called. It is of the same process group, so that what a
// terminal sends reaches it without us.
func forward(process *os.Process) (stop func()) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case got := <-signals:
				if fromTerminal := got == unix.SIGINT || got == unix.SIGQUIT; !fromTerminal || !inForeground() {
					_ = process.Signal(got) // gone already is fine
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// inForeground reports whether the terminal sends its signals to our process group.
func inForeground() bool {
	terminal, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}
