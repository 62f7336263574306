// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"glovebox/internal/guest/keeper"
	"glovebox/internal/guest/packet"
)

// keeperProcess is the daemon's end of a running keeper.
type keeperProcess struct {
	process *os.Process
	control *os.File
	gone    chan struct{} // closes when the keeper, and every box with it, is gone

	mu      sync.Mutex
	waiting map[string]chan startReport
	ended   map[string]chan struct{}
	orphans orphans
}

type startReport struct {
	pidfd *os.File
	err   error
}

// errKeeperGone: the keeper died before it could start the box. Another one can be asked.
var errKeeperGone = errors.New("the keeper ended")

// programFD is where the guest's file is in a starting keeper: above everything that the start itself places.
const programFD = 100

// startKeeper starts a keeper over the range of uids.
func startKeeper(guest *os.File, uids *uidRange) (*keeperProcess, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket pair for the keeper: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "keeper"), os.NewFile(uintptr(pair[1]), "keeper")
	defer theirs.Close()
	single := uids.space.single()
	process, err := spawnGuest(guest, keeper.Command, []*os.File{theirs}, &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uids.first(), Size: uids.space.size}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uids.first(), Size: uids.space.size}},

		GidMappingsEnableSetgroups: !single,
		Credential:                 &syscall.Credential{Uid: 0, Gid: 0, NoSetGroups: single},
		Setsid:                     true,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the keeper: %w", err), ours.Close())
	}
	k := &keeperProcess{
		process: process, control: ours, gone: make(chan struct{}),
		waiting: make(map[string]chan startReport), ended: make(map[string]chan struct{}),
	}
	go k.read()
	return k, nil
}

// spawnGuest starts the guest program in one of its roles, with files from descriptor 3 on.
func spawnGuest(guest *os.File, role string, files []*os.File, sys *syscall.SysProcAttr) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	fd, err := unix.FcntlInt(guest.Fd(), unix.F_DUPFD_CLOEXEC, programFD)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return os.StartProcess(fmt.Sprintf("/proc/self/fd/%d", fd), []string{"guest", role}, &os.ProcAttr{
		Env: []string{}, Files: append([]*os.File{null, null, os.Stderr}, files...), Sys: sys,
	})
}

// start asks for a process. ended closes when it is gone, and with the first process of a box the whole box.
func (k *keeperProcess) start(ctx context.Context, request keeper.Request, files []*os.File) (pidfd *os.File, ended <-chan struct{}, err error) {
	id := request.ID
	answer, end := make(chan startReport, 1), make(chan struct{})
	k.mu.Lock()
	k.waiting[id], k.ended[id] = answer, end
	err = packet.Send(int(k.control.Fd()), request, files...)
	k.mu.Unlock()
	if err != nil {
		k.mu.Lock()
		delete(k.waiting, id)
		delete(k.ended, id)
		k.mu.Unlock()
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			<-k.gone // it is dying: whoever asks again finds it gone
			return nil, nil, errKeeperGone
		}
		return nil, nil, fmt.Errorf("ask the keeper: %w", err)
	}
	select {
	case report := <-answer:
		if report.err != nil {
			return nil, nil, report.err
		}
		return report.pidfd, end, nil
	case <-k.gone:
		return nil, nil, errKeeperGone
	case <-ctx.Done():
		// A box that starts after all is killed by read, since nobody waits for it.
		k.mu.Lock()
		delete(k.waiting, id)
		k.mu.Unlock()
		return nil, nil, context.Cause(ctx)
	}
}

// read takes the keeper's reports until it is gone.
func (k *keeperProcess) read() {
	for {
		var report keeper.Report
		files, more, err := packet.Receive(int(k.control.Fd()), &report)
		if err != nil || !more {
			break
		}
		k.take(report, files)
	}
	_ = k.process.Kill()
	_, _ = k.process.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, end := range k.ended {
		close(end)
		delete(k.ended, id)
	}
	close(k.gone)
}

func (k *keeperProcess) take(report keeper.Report, files []*os.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if report.Orphan != 0 {
		k.orphans.ended(report.Orphan, report.Status)
		return
	}
	id := report.ID
	if report.Ended {
		if end := k.ended[id]; end != nil {
			close(end)
			delete(k.ended, id)
		}
		return
	}
	var started startReport
	switch {
	case report.Error != "":
		started.err = errors.New(report.Error)
	case len(files) != 1:
		started.err = fmt.Errorf("the keeper sent %d descriptors in place of one", len(files))
	default:
		started.pidfd = files[0]
	}
	answer := k.waiting[id]
	delete(k.waiting, id)
	if answer != nil {
		answer <- started
		return
	}
	if started.pidfd != nil {
		_ = unix.PidfdSendSignal(int(started.pidfd.Fd()), unix.SIGKILL, nil, 0)
		_ = started.pidfd.Close()
	}
}

// close ends the keeper and every box under it.
func (k *keeperProcess) close() error {
	_ = k.process.Kill()
	<-k.gone
	return k.control.Close()
}
