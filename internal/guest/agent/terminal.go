// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/wire"
)

var errNoTerminal = errors.New("the process has no terminal")

// openTerminal makes a terminal of the box. The process gets its end through the master, never by a path that user code
// could have a hand in.
func (e *ends) openTerminal(size wire.Size) error {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	master, err := unix.Open("/dev/ptmx", flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open a terminal (a sandbox has few of them, shared with its programs): %w", err)
	}
	e.ourOut = os.NewFile(uintptr(master), "terminal")
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("unlock a terminal: %w", err)
	}
	if err := setSize(e.ourOut, size); err != nil {
		return err
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, uintptr(flags))
	if errno != 0 {
		return fmt.Errorf("open the other end of a terminal: %w", errno)
	}
	return e.shareTerminal(master, int(peer))
}

// shareTerminal gives every stream a descriptor of its own, since each is closed by itself.
func (e *ends) shareTerminal(master, peer int) error {
	e.in = os.NewFile(uintptr(peer), "terminal")
	var err error
	if e.out, err = duplicate(peer); err != nil {
		return err
	}
	if e.err, err = duplicate(peer); err != nil {
		return err
	}
	e.ourIn, err = duplicate(master)
	return err
}

func duplicate(fd int) (*os.File, error) {
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate a descriptor: %w", err)
	}
	return os.NewFile(uintptr(copied), "terminal"), nil
}

func setSize(terminal *os.File, size wire.Size) error {
	conn, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Columns})
	}); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("set the size of a terminal: %w", failed)
	}
	return nil
}
