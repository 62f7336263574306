// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"glovebox/internal/engine"
)

// maxSocketPath is what the kernel takes, less the end mark.
const maxSocketPath = 107

// listenSocket makes the socket for the command line: only its owner may open it. It is made out of sight, so that there
// is no moment at which others could. The caller holds the data folder's lock, so what is there is stale.
func listenSocket(path string) (net.Listener, error) {
	fail := func(err error) (net.Listener, error) {
		return nil, &engine.Problem{Code: engine.CodeStorage, Err: err, Text: fmt.Sprintf("cannot make the socket %s: %v", path, err)}
	}
	hidden, err := os.MkdirTemp(filepath.Dir(path), ".s")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(hidden)
	temporary := filepath.Join(hidden, "s")
	if len(temporary) > maxSocketPath || len(path) > maxSocketPath {
		return fail(fmt.Errorf("the path is longer than %d characters: choose a data folder with a shorter name", maxSocketPath))
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return fail(err)
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(temporary, 0o600), os.Rename(temporary, path)); err != nil {
		return fail(errors.Join(err, listener.Close()))
	}
	return listener, nil
}

// lockData makes sure that one server at most uses a data folder.
func lockData(data string) (unlock func() error, err error) {
	file, err := os.OpenFile(filepath.Join(data, "serve.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, storageProblem(data, err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &engine.Problem{Code: engine.CodeStorage, Err: err, Text: fmt.Sprintf(
				"another server uses the data folder %s: end it, or choose another folder with GLOVEBOX_DATA or --data", data)}
		}
		return nil, storageProblem(data, err)
	}
	return file.Close, nil // closing unlocks
}

type peerKey struct{}

// withPeer notes who is at the other end of a socket.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	uid, err := peerUID(conn)
	if err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, uid)
}

func peerUID(conn net.Conn) (uint32, error) {
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a unix socket")
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		credentials, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, inner); err != nil {
		return 0, err
	}
	return credentials.Uid, nil
}

// ownerOnly lets this process's user and root in.
func (s *server) ownerOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		uid, known := r.Context().Value(peerKey{}).(uint32)
		if !known || uid != 0 && int(uid) != os.Geteuid() {
			http.Error(w, "this socket is for its owner", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
