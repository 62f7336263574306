// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/daemon"
	"glovebox/internal/daemon/daemontest"
)

// person sits at a terminal in which a command runs.
type person struct {
	terminal *os.File
	command  *exec.Cmd
	// usual is how the terminal was before the command.
	usual *unix.Termios

	mu   sync.Mutex
	seen bytes.Buffer
	news chan struct{}
	gone chan struct{}
}

// sit starts a command in a terminal of its own.
func sit(t *testing.T, environment []string, name string, args ...string) *person {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal can be made: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	usual, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{terminal: master, usual: usual, news: make(chan struct{}, 1), gone: make(chan struct{})}
	p.command = exec.CommandContext(t.Context(), name, args...)
	p.command.Env = append(os.Environ(), environment...)
	p.command.Stdin, p.command.Stdout, p.command.Stderr = slave, slave, slave
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go p.watch()
	return p
}

// watch keeps what is shown until the terminal's other end is closed.
func (p *person) watch() {
	defer close(p.gone)
	buffer := make([]byte, 4096)
	for {
		n, err := p.terminal.Read(buffer)
		p.mu.Lock()
		p.seen.Write(buffer[:n])
		p.mu.Unlock()
		select {
		case p.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (p *person) types(t *testing.T, text string) {
	t.Helper()
	if _, err := p.terminal.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// sees waits until the text is shown, and returns what was shown up to it since the last time.
func (p *person) sees(t *testing.T, text string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		p.mu.Lock()
		shown := p.seen.String()
		if before, _, ok := strings.Cut(shown, text); ok {
			p.seen.Next(len(before) + len(text))
			p.mu.Unlock()
			return before
		}
		p.mu.Unlock()
		select {
		case <-p.news:
		case <-deadline:
			t.Fatalf("%q is not shown: %q", text, shown)
		}
	}
}

// leaves waits for the end of the command.
func (p *person) leaves(t *testing.T, code int) {
	t.Helper()
	err := p.command.Wait()
	<-p.gone
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != code {
		t.Errorf("exit code %d, want %d: %s", got, code, p.seen.String())
	}
}

// TestShellAtATerminal: Ctrl-C ends what runs and not the variables, or drops what was typed; Ctrl-D is the end.
func TestShellAtATerminal(t *testing.T) {
	real, missing := daemontest.Data()
	if missing != "" {
		t.Skip(missing)
	}
	for _, served := range []bool{false, true} {
		t.Run(fmt.Sprintf("with a server: %v", served), func(t *testing.T) {
			data := shellData(t, real)
			environment := []string{"GLOVEBOX_DATA=" + data, "GLOVEBOX_CONFIG=", "GLOVEBOX_PROVE=false"}
			if served {
				serveFor(t, data, environment)
			}
			p := sit(t, environment, "glovebox", "shell", "--timeout", "10m")
			p.sees(t, "python> ")
			p.types(t, "x = 41\r")
			p.sees(t, "python> ")
			p.types(t, "import time; print('be' + 'gun', flush=True); time.sleep(600)\r")
			p.sees(t, "begun\r\n")
			p.types(t, "\x03")
			if told := p.sees(t, "glovebox: interrupted"); strings.Contains(told, "reset") {
				t.Errorf("the session was reset: %q", told)
			}
			if told := p.sees(t, "python> "); strings.Contains(told, "reset") {
				t.Errorf("the session was reset: %q", told)
			}
			p.types(t, "for i in range(2):\r    print(x + 1 + i)\r\r")
			p.sees(t, "42\r\n43\r\n")
			p.sees(t, "python> ")
			p.types(t, "x = (\r")
			p.sees(t, "......> ")
			p.types(t, "never")
			p.types(t, "\x03")
			p.sees(t, "python> ")
			p.types(t, "x + 3\r")
			p.sees(t, "44\r\n")
			p.sees(t, "python> ")
			p.types(t, ":files\r")
			p.sees(t, "python> ")
			p.types(t, "\x04")
			p.leaves(t, 0)
		})
	}
}

// TestTerminatedShellGivesTheTerminalBack: whatever ends it while a line is edited.
func TestTerminatedShellGivesTheTerminalBack(t *testing.T) {
	p := sit(t, []string{"GLOVEBOX_DATA=" + t.TempDir(), "GLOVEBOX_CONFIG="}, "glovebox-fake", "shell")
	p.sees(t, "python> ")
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.sees(t, "interrupted")
	now, err := unix.IoctlGetTermios(int(p.terminal.Fd()), unix.TCGETS)
	if err != nil || *now != *p.usual {
		t.Errorf("the terminal is %+v, was %+v: %v", now, p.usual, err)
	}
	p.leaves(t, 130)
}

// shellData is a data folder with the host's images.
func shellData(t *testing.T, real string) string {
	t.Helper()
	data := t.TempDir()
	for folder := data; folder != os.TempDir(); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(real, "images"), filepath.Join(data, "images")); err != nil {
		t.Fatal(err)
	}
	return data
}

// serveFor runs a server until the test ends.
func serveFor(t *testing.T, data string, environment []string) {
	t.Helper()
	command := exec.Command("glovebox", "serve", "--addr", "127.0.0.1:0")
	command.Env = append(os.Environ(), environment...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(command.Process.Signal(syscall.SIGTERM), command.Wait()); err != nil {
			t.Error(err)
		}
	})
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(daemon.SocketPath(data)); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the server does not come up")
		}
	}
}
