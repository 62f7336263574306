// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/wire"
)

const (
	// forkTimeout is how long an interpreter may take to fork itself.
	forkTimeout = 20 * time.Second
	// endGrace is how long the kernel's status may come after the channel's end of a sibling, whose pid is its own claim.
	endGrace = time.Second
	// maxOrphans bounds the statuses kept of processes that ended before their session was known.
	maxOrphans = 256
)

// forkSession has an idle interpreter fork itself. The sibling is a process that user code has long been running in: its
// pid is a claim, good for signals within the box and nothing else.
func (a *Agent) forkSession(id, target uint32) error {
	parent := a.child(target)
	if parent == nil {
		return errGone
	}
	if parent.child.channel == nil {
		return errors.New("only an interpreter can be forked")
	}
	s, theirs, err := a.newSibling(id)
	if err != nil {
		return err
	}
	defer closeFiles(theirs)
	parentDone, err := parent.sendFork(id, theirs)
	if err != nil {
		closeFiles([]*os.File{s.child.channel, s.child.stdout, s.child.stderr})
		return err
	}
	closeFiles(theirs)
	a.remember(s)
	ended, err := s.serve()
	if err != nil {
		return err
	}
	ready, err := s.awaitSibling(parentDone, ended)
	if err != nil {
		_ = s.child.channel.SetReadDeadline(longAgo()) // ends the session, if it began at all
		return err
	}
	a.claim(s, ready.PID)
	a.send(wire.KindReply, id, wire.Reply{PID: ready.PID, Ready: &ready})
	return nil
}

// awaitSibling waits for both: the sibling that is ready, and the parent that is idle again.
func (s *session) awaitSibling(parentDone <-chan bool, ended <-chan struct{}) (wire.Ready, error) {
	timeout := time.NewTimer(forkTimeout)
	defer timeout.Stop()
	select {
	case done := <-parentDone:
		if !done {
			return wire.Ready{}, errors.New("the interpreter could not fork itself")
		}
	case <-timeout.C:
		return wire.Ready{}, errors.New("the interpreter did not fork itself in time")
	}
	select {
	case ready := <-s.ready:
		return ready, nil
	case <-ended:
		return wire.Ready{}, errors.New("the forked interpreter ended before it was ready")
	case <-timeout.C:
		return wire.Ready{}, errors.New("the forked interpreter was not ready in time")
	}
}

// newSibling makes a session without a process, and the ends for its process.
func (a *Agent) newSibling(id uint32) (*session, []*os.File, error) {
	channel, theirChannel, channelErr := socketPair()
	stdout, theirStdout, stdoutErr := pipe(true)
	stderr, theirStderr, stderrErr := pipe(true)
	theirs := []*os.File{theirChannel, theirStdout, theirStderr}
	if err := errors.Join(channelErr, stdoutErr, stderrErr); err != nil {
		closeFiles(append(theirs, channel, stdout, stderr))
		return nil, nil, err
	}
	status := make(chan unix.WaitStatus, 1)
	c := &child{status: status, channel: channel, stdout: stdout, stderr: stderr}
	s := &session{
		id: id, agent: a, child: c, out: wire.NewWriter(channel), ready: make(chan wire.Ready, 1), adopted: status,
	}
	s.channelEnded = func() {
		time.AfterFunc(endGrace, func() { s.exited(unix.WaitStatus(unix.SIGKILL)) })
	}
	return s, theirs, nil
}

// sendFork gives an idle interpreter the order and the descriptors. It is busy until it says that it is done.
func (s *session) sendFork(id uint32, theirs []*os.File) (<-chan bool, error) {
	s.mu.Lock()
	switch {
	case s.gone:
		s.mu.Unlock()
		return nil, errGone
	case s.cell != 0:
		s.mu.Unlock()
		return nil, errBusy
	}
	done := make(chan bool, 1)
	s.cell, s.last, s.forking, s.done = id, false, done, nil
	s.mu.Unlock()
	if err := s.out.Bytes(wire.KindFork, id, []byte("{}")); err != nil {
		return nil, err
	}
	return done, s.out.Exclusively(func(io.Writer) error {
		fds := make([]int, len(theirs))
		for i, file := range theirs {
			fds[i] = int(file.Fd())
		}
		conn, err := s.child.channel.SyscallConn()
		if err != nil {
			return err
		}
		var sendErr error
		err = conn.Write(func(fd uintptr) bool {
			sendErr = unix.Sendmsg(int(fd), []byte{0}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
			return !errors.Is(sendErr, unix.EAGAIN)
		})
		if err := errors.Join(err, sendErr); err != nil {
			return fmt.Errorf("hand descriptors to the interpreter: %w", err)
		}
		return nil
	})
}

// claim takes a sibling's word for its pid, and the status if it has ended already.
func (a *Agent) claim(s *session, pid int) {
	if pid <= 1 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s.mu.Lock()
	s.child.pid = pid
	s.mu.Unlock()
	if status, known := a.orphans[pid]; known {
		delete(a.orphans, pid)
		s.exited(status)
	}
}

// orphan takes the status of a process that this one did not start: a sibling's, or some program's that lost its parent.
func (a *Agent) orphan(pid int, status unix.WaitStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.children {
		if s.channelEnded != nil && s.pid() == pid {
			s.exited(status)
			return
		}
	}
	if len(a.orphans) >= maxOrphans {
		clear(a.orphans)
	}
	a.orphans[pid] = status
}

func (s *session) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child.pid
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // nil, or closed already, is an error and no harm
	}
}
