// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"glovebox/internal/guest/wire"
	"glovebox/internal/image/imagetest"
	"glovebox/internal/interpreter"
)

// enter is run by unshare in a private mount namespace: it lays an overlay over the image, puts the interpreter's files
// and a fresh home into it, and becomes the command as uid 1000. The image itself is not changed.
const enter = `
image=$1 files=$2 work=$3; shift 3
mount -t tmpfs t "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay o -o "lowerdir=$image,upperdir=$work/upper,workdir=$work/work" "$work/root"
root=$work/root
mkdir -p "$root/usr/lib/glovebox" "$root/home/user" "$root/proc" "$root/dev"
mount --bind "$files" "$root/usr/lib/glovebox"
mount -t tmpfs -o mode=1777 t "$root/tmp"
mount -t tmpfs -o mode=755,uid=1000,gid=1000 t "$root/home/user"
mount --bind /proc "$root/proc"
mount -t tmpfs t "$root/dev"
for device in null zero full random urandom; do
	: > "$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir -m 1777 "$root/dev/shm"
exec chroot --userspec=1000:1000 "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/user \
	LANG=C.UTF-8 OPENBLAS_NUM_THREADS=1 /bin/sh -c 'cd /home/user && exec "$@"' sh "$@"
`

// rootfs returns the image to test with, or skips.
func rootfs(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting the image needs root")
	}
	return imagetest.Rootfs(t)
}

func entered(ctx context.Context, image, files, work string, args ...string) *exec.Cmd {
	head := []string{"-m", "-n", "sh", "-ec", enter, "sh", image, files, work}
	return exec.CommandContext(ctx, "unshare", append(head, args...)...)
}

// compiled is a folder with the interpreter's files, compiled by the image's Python as the image build does.
var compiled struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if compiled.dir != "" {
		_ = os.RemoveAll(compiled.dir)
	}
	os.Exit(code)
}

func compiledFiles(t *testing.T, image string) string {
	t.Helper()
	compiled.once.Do(func() { compiled.dir, compiled.err = compile(t.Context(), image, t.TempDir()) })
	if compiled.err != nil {
		t.Fatalf("compile the interpreter's files: %v", compiled.err)
	}
	return compiled.dir
}

func compile(ctx context.Context, image, work string) (string, error) {
	dir, err := os.MkdirTemp("", "interpreter")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, interpreter.Files()); err != nil {
		return dir, err
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			err = os.Chmod(path, 0o777)
		}
		return err
	})
	if err != nil {
		return dir, err
	}
	command := entered(ctx, image, dir, work,
		"/usr/bin/python3", "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", interpreter.Root)
	if output, err := command.CombinedOutput(); err != nil {
		return dir, errors.Join(err, errors.New(string(output)))
	}
	return dir, nil
}

// session is a started interpreter.
type session struct {
	t       *testing.T
	command *exec.Cmd
	channel *os.File
	reader  *wire.Reader
	writer  *wire.Writer
	pipes   bytes.Buffer // what came by descriptors 1 and 2
	next    uint32
}

// start starts the interpreter: with args, or as the table of languages says.
func start(t *testing.T, args []string) *session {
	t.Helper()
	image := rootfs(t)
	if args == nil {
		language, _ := interpreter.Lookup("python")
		args = language.Args
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "channel")
	s := &session{t: t, channel: os.NewFile(uintptr(pair[0]), "channel")}
	s.reader, s.writer = wire.NewReader(s.channel), wire.NewWriter(s.channel)
	s.command = entered(t.Context(), image, compiledFiles(t, image), t.TempDir(), args...)
	s.command.ExtraFiles = []*os.File{theirs}
	s.command.Stdout, s.command.Stderr = &s.pipes, &s.pipes
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the guest gives each interpreter a group of its own, too
	s.command.WaitDelay = 10 * time.Second                      // for pipes that a stray child holds
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	t.Cleanup(func() {
		_ = s.channel.Close()
		_ = syscall.Kill(-s.command.Process.Pid, syscall.SIGKILL)
		_ = s.command.Wait()
	})
	message, err := s.reader.Next()
	if err != nil || message.Kind != wire.KindReady {
		t.Fatalf("no ready message: %v %v\n%s", message, err, s.pipes.String())
	}
	return s
}

// run sends a cell and returns its messages; the last is Done unless the interpreter died. each sees every message.
func (s *session) run(cell wire.Cell, each func(wire.Message)) []wire.Message {
	s.t.Helper()
	s.next++
	if err := s.writer.JSON(wire.KindCell, s.next, cell); err != nil {
		s.t.Fatalf("send a cell: %v", err)
	}
	var messages []wire.Message
	for {
		message, err := s.reader.Next()
		if err != nil {
			return messages // it died; the caller looks at how
		}
		messages = append(messages, message)
		if each != nil {
			each(message)
		}
		if message.Kind == wire.KindDone {
			return messages
		}
	}
}

// wait returns how the process ended.
func (s *session) wait() string {
	_ = s.channel.Close()
	_ = s.command.Wait()
	return s.command.ProcessState.String()
}
