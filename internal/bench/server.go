// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// server is a process of this program that serves on loopback, with a data folder of its own and the host's images.
type server struct {
	address string
	key     string
	pid     int
	command *exec.Cmd
	ended   chan error
	said    *bytes.Buffer
}

const startPatience = 30 * time.Second

var listens = regexp.MustCompile(`listens on (http://\S+)`)

// dataFolder makes a data folder whose images are those of another one.
func dataFolder(folder, images string) error {
	if err := os.Chmod(folder, 0o755); err != nil { // sandboxes' users must pass
		return err
	}
	return os.Symlink(filepath.Join(images, "images"), filepath.Join(folder, "images"))
}

// arguments are those of a call of this program that works on the folder, its own name first.
func (o *Options) arguments(folder string, args ...string) []string {
	call := []string{o.Program, "--data", folder}
	if o.ConfigFile != "" {
		call = append(call, "--config", o.ConfigFile)
	}
	return append(call, args...)
}

// variables are those of a call of this program that says little.
func (o *Options) variables(more ...string) []string {
	kept := slices.DeleteFunc(slices.Clone(o.Environment), func(variable string) bool {
		return strings.HasPrefix(variable, "GLOVEBOX_DATA=") || strings.HasPrefix(variable, "GLOVEBOX_ADDR=") ||
			strings.HasPrefix(variable, "GLOVEBOX_TOKEN=") || strings.HasPrefix(variable, "GLOVEBOX_LOG_LEVEL=")
	})
	return append(append(kept, "GLOVEBOX_LOG_LEVEL=error"), more...)
}

// startServer starts a server and waits until it says where it is.
func startServer(ctx context.Context, o *Options, folder string) (*server, error) {
	s := &server{key: rand.Text(), ended: make(chan error, 1), said: &bytes.Buffer{}}
	call := o.arguments(folder, "serve", "--addr", "127.0.0.1:0")
	s.command = exec.CommandContext(context.WithoutCancel(ctx), call[0], call[1:]...)
	s.command.Env = o.variables("GLOVEBOX_TOKEN=" + s.key)
	s.command.Stderr = s.said
	reader, writer := io.Pipe()
	s.command.Stdout = writer
	s.command.WaitDelay = time.Second
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	s.pid = s.command.Process.Pid
	go func() {
		err := s.command.Wait()
		_ = writer.CloseWithError(io.EOF) // always nil
		s.ended <- err
	}()
	found := make(chan string, 1)
	go announced(reader, found)
	select {
	case s.address = <-found:
	case <-time.After(startPatience):
	case <-ctx.Done():
	}
	if s.address == "" {
		return nil, errors.Join(s.close(), fmt.Errorf("the server did not start: %s", lastLine(s.said.String())))
	}
	return s, nil
}

// announced reads until the address is said, passes it on, and reads the rest away.
func announced(reader io.Reader, found chan<- string) {
	lines := bufio.NewScanner(reader)
	for lines.Scan() {
		if match := listens.FindStringSubmatch(lines.Text()); match != nil {
			found <- match[1]
		}
	}
	close(found)
}

// close ends the server politely.
func (s *server) close() error {
	if err := endProcess(s.command, s.ended); err != nil {
		return fmt.Errorf("end the server: %w: %s", err, lastLine(s.said.String()))
	}
	return nil
}

// endProcess asks a process to end and insists after a while. That a signal ended it is no error.
func endProcess(command *exec.Cmd, ended <-chan error) error {
	const patience = 30 * time.Second
	_ = command.Process.Signal(syscall.SIGTERM) // it may be gone
	var err error
	select {
	case err = <-ended:
	case <-time.After(patience):
		_ = command.Process.Kill() // it may be gone
		err = errors.Join(errors.New("it had to be killed"), <-ended)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() { //nolint:errcheck,forcetypeassert // Linux
		return nil
	}
	return err
}
