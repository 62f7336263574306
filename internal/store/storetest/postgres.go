// SPDX-License-Identifier: Apache-2.0

// Package storetest starts a PostgreSQL server for tests.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// serverUser runs the server where the test is root, which PostgreSQL refuses. Debian's package makes it.
const serverUser = "postgres"

// Postgres starts a server of its own for the test, reached by a socket in a new folder, and returns the URL of its
// database. Without PostgreSQL's programs the test is skipped.
func Postgres(tb testing.TB) (url string) {
	tb.Helper()
	programs, err := programs()
	if err != nil {
		tb.Skip(err)
	}
	// A short path: that of a socket has 107 bytes.
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // the path must be short
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	attributes, err := account(dir)
	if err != nil {
		tb.Skip(err)
	}
	data := filepath.Join(dir, "data")
	run := func(ctx context.Context, program string, args ...string) error {
		command := exec.CommandContext(ctx, filepath.Join(programs, program), args...)
		command.Dir, command.SysProcAttr = dir, attributes
		log, err := os.Create(filepath.Join(dir, program+".log"))
		if err != nil {
			return err
		}
		command.Stdout, command.Stderr = log, log // a file: pg_ctl's child would keep a pipe open
		err = errors.Join(command.Run(), log.Close())
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s: %w: %s", program, err, text)
		}
		return nil
	}
	if err := run(tb.Context(), "initdb", "--auth=trust", "--username=glovebox", "--no-sync", "--locale=C.UTF-8", "-D", data); err != nil {
		tb.Fatal(err)
	}
	settings := fmt.Sprintf("-c listen_addresses='' -c unix_socket_directories=%s -c fsync=off -c shared_buffers=16MB", dir)
	if err := run(tb.Context(), "pg_ctl", "-D", data, "-w", "-l", filepath.Join(data, "log"), "-o", settings, "start"); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := run(context.Background(), "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"); err != nil {
			tb.Error(err)
		}
	})
	return "postgres:///postgres?user=glovebox&host=" + dir
}

// programs finds the newest server's folder of programs.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed (Debian's package postgresql): its tests are skipped")
	}
	return filepath.Dir(slices.Max(found)), nil
}

// account gives the folder to the server's user, where one is needed.
func account(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the test's own user will do
	}
	found, err := user.Lookup(serverUser)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user %s: its tests are skipped", serverUser)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}
