// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// loopbackUp makes 127.0.0.1 usable in a new network namespace.
func loopbackUp() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return // the server then says that it cannot listen
	}
	defer unix.Close(fd)
	if request, err := unix.NewIfreq("lo"); err == nil {
		request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		_ = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request) // the server then says that it cannot listen
	}
}

// TestT73Offline: a host without any network starts and runs.
func TestT73Offline(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("skipped: a network namespace for the server needs root")
	}
	theServer(t)
	var s *server
	var client *http.Client
	took(t, 5, func() {
		s = ownServer(t, "pool: {enabled: false, min: 1, max: 1, total: 1, max_age: 1m}\n", func(command *exec.Cmd) {
			command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
			command.Env = append(command.Env, offline+"=1")
		})
		// Its loopback is another one than ours: the socket in its data folder leads there.
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(s.folder, "glovebox.sock"))
		}}
		t.Cleanup(transport.CloseIdleConnections)
		client = &http.Client{Transport: transport}
	})
	took(t, 5, func() {
		request, err := s.request(t.Context(), http.MethodPost, "/v1/executions", "application/json",
			strings.NewReader(`{"code": "import pandas as pd\nprint(pd.DataFrame({'a': [1, 2]}).a.sum())"}`))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		answer{response.StatusCode, response.Header, body}.execution(t).says(t, "3")
	})
}
