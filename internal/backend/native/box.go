// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/cgroup"
	"glovebox/internal/guest/box"
	"glovebox/internal/guest/keeper"
	"glovebox/internal/guest/layer"
	"glovebox/internal/guest/layout"
	"glovebox/internal/guest/link"
	"glovebox/internal/guest/packet"
	"glovebox/internal/sandbox"
)

const (
	// setupTimeout is how long a box may take to be built.
	setupTimeout = 15 * time.Second
	// endTimeout is how long the kernel may take to end what was killed.
	endTimeout = 20 * time.Second
	// guestMemory and guestPIDs are the reserve of the guest itself: no flood by user code can take it away.
	guestMemory = 64 << 20
	guestPIDs   = 128
	// firstSize is the size of the writable mounts until the lease sets theirs.
	firstSize   = 1 << 20
	firstInodes = 1024
	// restartReserve is what a box may use beyond its memory limit once the kernel has ended something in it for memory:
	// files stay, and a new interpreter must find room beside them.
	restartReserve = 16 << 20
	// maxTmpInodes bounds the files on /tmp and on /dev/shm, each: nobody leaves results there, and every file costs
	// kernel memory.
	maxTmpInodes = 1 << 15
)

// Box implements sandbox.Sandbox.
type Box struct {
	sandbox.Unsupported
	backend *Backend
	id      sandbox.ID
	owner   string
	slot    int
	// root and uid are the uids of the guest and of the sandbox's programs, in this process's user namespace.
	root, uid int
	dir       string
	rootfs    string
	group     *cgroup.Group
	user      *cgroup.Group
	ended     <-chan struct{}
	conn      *link.Conn
	// releaseImage lets the image be removed; the box's mounts are gone by then.
	releaseImage func()

	// handles guards the descriptors against a close during their use.
	handles             sync.RWMutex
	pidfd, lane         *os.File
	workspace, tmp, shm *os.File

	mu      sync.Mutex
	warm    *link.Session // the interpreter that waits for the first Open
	leased  bool
	stopped bool
	lease   sandbox.Lease

	ending                sync.Mutex // held while it is stopped or destroyed
	stopDone, destroyDone bool
}

// build makes a box, or nothing: what was made before an error is undone in reverse.
func (b *Backend) build(ctx context.Context, id sandbox.ID, class sandbox.Class) (_ *Box, err error) {
	uids, err := b.uids()
	if err != nil {
		return nil, err
	}
	rootfs, releaseImage, err := b.config.Rootfs(class.Image)
	if err != nil {
		return nil, err
	}
	made := &Box{
		Unsupported: sandbox.Unsupported{Backend: Name}, backend: b, id: id, owner: uids.name(), releaseImage: releaseImage,
		dir: filepath.Join(b.config.StateDir, uids.name(), string(id)), rootfs: rootfs,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Destroy(context.WithoutCancel(ctx)))
		}
	}()
	kept, err := b.reserve(made, uids)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(made.dir, "data"), 0o755); err != nil {
		return nil, err
	}
	if err := made.makeGroups(); err != nil {
		return nil, err
	}
	if err := made.start(ctx, kept, rootfs, class); err != nil {
		return nil, err
	}
	if class.Warm != sandbox.WarmNone {
		if err := b.warmUp(ctx, made, kept, class); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	b.boxes[id] = made
	return made, nil
}

// reserve takes a slot and finds or starts a living keeper.
func (b *Backend) reserve(made *Box, uids *uidRange) (*keeperProcess, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed // it would start a keeper that nobody ends
	}
	if b.keeper != nil {
		select {
		case <-b.keeper.gone:
			_ = b.keeper.control.Close()
			b.keeper = nil
		default:
		}
	}
	if b.keeper == nil {
		started, err := startKeeper(b.guest, uids)
		if err != nil {
			return nil, err
		}
		b.keeper = started
	}
	slot, err := b.slots.take()
	if err != nil {
		return nil, err
	}
	made.slot, made.root, made.uid = slot, uids.rootOf(slot), uids.userOf(slot)
	if b.without.Has(layer.UID) {
		made.uid = made.root
	}
	return b.keeper, nil
}

// makeGroups makes the box's group with a leaf for the guest and one for everything else.
func (x *Box) makeGroups() error {
	path := filepath.Join(x.owner, string(x.id))
	x.group = x.backend.cgroups.Open(path)
	guest, err := x.backend.cgroups.Create(filepath.Join(path, "guest"))
	if err != nil {
		return err
	}
	if err := guest.Set(cgroup.Limits{Memory: guestMemory, MilliCPU: 1000, PIDs: guestPIDs}); err != nil {
		return fmt.Errorf("limit the guest: %w", err)
	}
	if x.user, err = x.backend.cgroups.Create(filepath.Join(path, "user")); err != nil {
		return err
	}
	return x.group.SetWeight(cgroup.WeightLow) // until the lease nobody waits for it
}

// start brings up the first process and waits until its box stands.
func (x *Box) start(ctx context.Context, kept *keeperProcess, rootfs string, class sandbox.Class) error {
	s, err := x.openStartFiles(rootfs)
	if err != nil {
		return err
	}
	defer s.close()
	request := keeper.Request{Op: keeper.OpBox, ID: string(x.id), Slot: x.slot, Without: x.backend.without}
	if x.pidfd, x.ended, err = kept.start(ctx, request, s.forGuest()); err != nil {
		return err
	}
	s.closeGuestSide()
	spec := box.Spec{
		Hostname: "sandbox", Disk: firstSize, Inodes: firstInodes, Tmp: firstSize,
		TmpNoExec:    class.Profile != sandbox.ProfileStandard,
		HideAccounts: class.Profile == sandbox.ProfileStrict,
		Without:      x.backend.without,
		GuestCgroups: len(s.guestProcs), UserCgroups: len(s.userProcs),
	}
	handles, err := setUp(s.lane, spec)
	if err != nil {
		return err
	}
	x.workspace, x.tmp, x.shm = handles[0], handles[1], handles[2]
	x.lane, s.lane = s.lane, nil
	channel, err := net.FileConn(s.channel)
	if err != nil {
		return err
	}
	x.conn = link.New(channel, hostView{x})
	return x.conn.Ping(ctx)
}

// startFiles are the descriptors a box is started with, and our ends of its sockets.
type startFiles struct {
	channel, lane           *os.File
	guestChannel, guestLane *os.File
	root, data              *os.File
	guestProcs, userProcs   []*os.File
}

func (x *Box) openStartFiles(rootfs string) (_ *startFiles, err error) {
	s := &startFiles{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.channel, s.guestChannel, err = socketPair(unix.SOCK_STREAM); err != nil {
		return nil, err
	}
	if s.lane, s.guestLane, err = socketPair(unix.SOCK_SEQPACKET); err != nil {
		return nil, err
	}
	if s.root, err = detachedTree(rootfs, 0); err != nil {
		return nil, err
	}
	if s.data, err = detachedTree(filepath.Join(x.dir, "data"), unix.MOUNT_ATTR_NOEXEC); err != nil {
		return nil, err
	}
	guest := x.backend.cgroups.Open(filepath.Join(x.owner, string(x.id), "guest"))
	if s.guestProcs, err = guest.Procs(x.root); err != nil {
		return nil, err
	}
	s.userProcs, err = x.user.Procs(x.uid)
	return s, err
}

// forGuest lists the descriptors in the order of package box: channel, setup, root, data, control groups.
func (s *startFiles) forGuest() []*os.File {
	files := []*os.File{s.guestChannel, s.guestLane, s.root, s.data}
	return append(append(files, s.guestProcs...), s.userProcs...)
}

// closeGuestSide closes what the guest now holds itself: as long as we held it too, its end would not show.
func (s *startFiles) closeGuestSide() {
	for _, file := range s.forGuest() {
		_ = file.Close()
	}
}

func (s *startFiles) close() {
	for _, file := range append(s.forGuest(), s.channel, s.lane) {
		_ = file.Close() // nil is an error and no harm
	}
}

func socketPair(kind int) (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socket pair: %w", err)
	}
	return os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "socket"), nil
}

// setUp sends the description and receives the writable folders. No user code has run yet: the answer is the guest's.
func setUp(lane *os.File, spec box.Spec) ([]*os.File, error) {
	timeout := unix.NsecToTimeval(int64(setupTimeout))
	if err := unix.SetsockoptTimeval(int(lane.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return nil, err
	}
	if err := packet.Send(int(lane.Fd()), spec); err != nil {
		return nil, fmt.Errorf("describe the box to its guest: %w", err)
	}
	var answer box.Setup
	files, more, err := packet.Receive(int(lane.Fd()), &answer)
	switch {
	case err != nil:
		err = fmt.Errorf("wait for the box: %w", err)
	case !more:
		err = errors.New("the guest ended before its box stood")
	case answer.Error != "":
		err = fmt.Errorf("build the box: %s", answer.Error)
	case len(files) != 3:
		err = fmt.Errorf("the guest sent %d folders in place of 3", len(files))
	}
	if err != nil {
		for _, file := range files {
			_ = file.Close()
		}
		return nil, err
	}
	return files, nil
}

// Handle names the sandbox.
func (x *Box) Handle() sandbox.Handle {
	return sandbox.Handle{Backend: Name, ID: x.id, Owner: x.owner}
}

// Lease sets limits and brings in the files.
func (x *Box) Lease(ctx context.Context, lease sandbox.Lease) error {
	if err := lease.Limits.Validate(); err != nil {
		return fmt.Errorf("native: %w", err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stopped:
		return sandbox.ErrGone
	case x.leased:
		return sandbox.ErrLeased
	}
	x.leased, x.lease = true, lease
	limits := lease.Limits
	if limits.DiskBandwidth != nil {
		if err := limitDisk(x.group, *limits.DiskBandwidth, x.rootfs, x.backend.config.StateDir); err != nil {
			return x.backend.refuseDisk(ctx, err)
		}
	}
	if err := x.group.SetWeight(cgroup.WeightNormal); err != nil {
		return fmt.Errorf("native: weigh the sandbox: %w", err)
	}
	if err := x.user.Set(cgroup.Limits{Memory: limits.Memory, MilliCPU: limits.MilliCPU, PIDs: limits.Processes}); err != nil {
		return fmt.Errorf("native: limit the sandbox: %w", err)
	}
	err := errors.Join(
		resize(x.workspace, limits.Disk, limits.Inodes),
		resize(x.tmp, limits.Tmp, min(limits.Inodes, maxTmpInodes)),
		resize(x.shm, limits.Tmp, min(limits.Inodes, maxTmpInodes)),
	)
	if err != nil {
		return fmt.Errorf("native: %w", err)
	}
	for _, file := range lease.Files {
		if err := x.bringIn(file); err != nil {
			return fmt.Errorf("native: bring in %q: %w", file.Name, err)
		}
	}
	return x.conn.Lease(ctx, limits)
}

// bringIn writes an upload to the host's side of /data and links to it from the working folder.
func (x *Box) bringIn(file sandbox.InputFile) error {
	if err := sandbox.ValidFileName(file.Name); err != nil {
		return err
	}
	source, err := file.Open()
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(filepath.Join(x.dir, "data", file.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if _, err = io.Copy(target, source); err != nil {
		return errors.Join(err, target.Close())
	}
	if err := target.Close(); err != nil {
		return err
	}
	return asUser(x.uid, func() error {
		return unix.Symlinkat(layout.Data+"/"+file.Name, int(x.workspace.Fd()), file.Name)
	})
}
