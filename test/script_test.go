// SPDX-License-Identifier: Apache-2.0

// Package test runs the program as its users do: each txtar script in testdata is a session at a shell, and so the
// documentation of that part.
package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"glovebox/internal/cli"
	"glovebox/internal/daemon"
	"glovebox/internal/daemon/daemontest"
	"glovebox/internal/sandbox"
	"glovebox/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"glovebox":      func() { os.Exit(cli.Main(cli.Host())) },
		"glovebox-fake": func() { os.Exit(cli.Main(fakeHost())) },
	})
}

// fakeHost is the program with the fake backend as its only one.
func fakeHost() cli.Process {
	p := cli.Host()
	p.Daemon = daemon.Options{Images: anyImage{}, Backends: []daemon.Constructor{
		{Name: sandboxtest.FakeName, New: func(s daemon.Settings) (sandbox.Backend, error) {
			return sandboxtest.NewFake(filepath.Join(s.State, "fake")), nil
		}},
	}}
	return p
}

type anyImage struct{}

func (anyImage) Use(name string) (string, func(), error) { return name, func() {}, nil }

// TestScripts runs every script. Those that need a real sandbox say [!native] skip.
func TestScripts(t *testing.T) {
	data, missing := daemontest.Data()
	if missing != "" {
		t.Logf("scripts with real sandboxes are skipped: %s", missing)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: os.Getenv("GLOVEBOX_TEST_UPDATE") != "",
		Condition: func(name string) (bool, error) {
			if name == "native" {
				return missing == "", nil
			}
			return false, fmt.Errorf("unknown condition %s", name)
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("GLOVEBOX_DATA", filepath.Join(env.WorkDir, "data"))
			env.Setenv("GLOVEBOX_CONFIG", filepath.Join(env.WorkDir, ".empty.yaml"))
			env.Setenv("REAL_DATA", data)
			// A loopback address of the script's own: its port is free, and known before a server listens.
			env.Setenv("ADDR", fmt.Sprintf("127.%d.%d.%d:8722", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
			env.Setenv("GLOVEBOX_PROVE", "false") // a fake has nothing to prove
			return errors.Join(os.WriteFile(filepath.Join(env.WorkDir, ".empty.yaml"), nil, 0o600), os.MkdirAll(filepath.Join(env.WorkDir, ".tmp"), 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "await": await, "nothing": nothing, "realimages": realImages, "terminate": terminate, "http": request, "revoke": revoke,
		},
	})
}

// status CODE COMMAND...: the command leaves with that code.
func status(ts *testscript.TestScript, neg bool, args []string) {
	const fewest = 2
	if neg || len(args) < fewest {
		ts.Fatalf("usage: status CODE COMMAND ARGS")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code is %d, want %d", got, want)
	}
}

// http STATUS KEYFILE METHOD PATH: the server at $ADDR answers with that status. stdout is the body.
func request(ts *testscript.TestScript, neg bool, args []string) {
	const fewest = 4
	if neg || len(args) < fewest || len(args) > fewest+1 {
		ts.Fatalf("usage: http STATUS KEYFILE METHOD PATH [JSON]")
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("no answer"))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, args[2], "http://"+ts.Getenv("ADDR")+args[3], strings.NewReader(strings.Join(args[fewest:], "")))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[1])))
	answer, err := new(http.Client).Do(r)
	ts.Check(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	ts.Check(err)
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
	if got := strconv.Itoa(answer.StatusCode); got != args[0] {
		ts.Fatalf("status %s, want %s: %s", got, args[0], body)
	}
}

// revoke KEYFILE: the key in the file is revoked.
func revoke(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("glovebox", "keys", "revoke", strings.TrimSpace(ts.ReadFile(args[0]))))
}

// await PATTERN: a file of that name appears.
func await(ts *testscript.TestScript, _ bool, args []string) {
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		found, err := filepath.Glob(ts.MkAbs(args[0]))
		ts.Check(err)
		if len(found) > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("%s does not appear", args[0])
		}
	}
}

// nothing FOLDER: the folder is empty, or not there.
func nothing(ts *testscript.TestScript, _ bool, args []string) {
	entries, err := os.ReadDir(ts.MkAbs(args[0]))
	if err == nil && len(entries) > 0 {
		ts.Fatalf("%s holds %v", args[0], entries)
	}
}

// realimages: the script's data folder gets the host's images.
func realImages(ts *testscript.TestScript, _ bool, _ []string) {
	data := ts.Getenv("GLOVEBOX_DATA")
	ts.Check(os.MkdirAll(data, 0o755))
	ts.Check(os.Chmod(ts.Getenv("WORK"), 0o755))
	ts.Check(os.Symlink(filepath.Join(ts.Getenv("REAL_DATA"), "images"), filepath.Join(data, "images")))
}

// terminate [WORD]: every background command, or those with that word in them, gets SIGTERM.
func terminate(ts *testscript.TestScript, _ bool, args []string) {
	for _, command := range ts.BackgroundCmds() {
		if len(args) > 0 && !slices.Contains(command.Args, args[0]) {
			continue
		}
		ts.Check(command.Process.Signal(syscall.SIGTERM))
	}
}
