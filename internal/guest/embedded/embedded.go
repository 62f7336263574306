// SPDX-License-Identifier: Apache-2.0

// Package embedded carries the guest, the small static program that runs inside every sandbox, within the glovebox
// binary. `make build` puts it into bin/ before it builds the rest.
package embedded

import (
	"embed"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

//go:embed bin
var bin embed.FS

// ErrMissing means that the binary was built without its guest.
var ErrMissing = errors.New("this glovebox was built without its guest program: build it with `make build`")

// Guest returns an executable file of the guest that nobody can write to. It lives in memory and has no path.
func Guest() (*os.File, error) {
	program, err := bin.ReadFile("bin/guest")
	if err != nil {
		return nil, ErrMissing
	}
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 there is no MFD_EXEC and every memfd is executable
		fd, err = unix.MemfdCreate("guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for the guest: %w", err)
	}
	file := os.NewFile(uintptr(fd), "guest")
	if _, err := file.Write(program); err != nil {
		return nil, errors.Join(fmt.Errorf("write the guest: %w", err), file.Close())
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("seal the guest: %w", err), file.Close())
	}
	return file, nil
}
