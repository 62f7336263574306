// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"glovebox/internal/cgroup"
	"glovebox/internal/guest/confine"
	"glovebox/internal/guest/keeper"
	"glovebox/internal/guest/layer"
	"glovebox/internal/guest/layout"
	"glovebox/internal/guest/link"
	"glovebox/internal/guest/packet"
	"glovebox/internal/guest/wire"
	"glovebox/internal/guest/zygote"
	"glovebox/internal/sandbox"
)

const (
	// zygoteMemory bounds a zygote; it holds the data stack once.
	zygoteMemory = 2 << 30
	zygotePIDs   = 256
	// zygoteTimeout is how long a zygote may take to import the data stack.
	zygoteTimeout = 2 * time.Minute
	// A zygote is replaced after so much time or so many forks: what its sessions share by being forked from one
	// process, the layout of their memory and their hash seed, is worth less the shorter it lives.
	zygoteMaxAge   = time.Hour
	zygoteMaxForks = 10_000
)

// errZygoteGone: the zygote died or was replaced before it could fork. Another one can be asked.
var errZygoteGone = errors.New("the zygote ended")

// zygoteProcess is the daemon's end of a running zygote.
type zygoteProcess struct {
	keeper  *keeperProcess
	uid     int // what it runs as, in this process's user namespace
	control *os.File
	pidfd   *os.File
	ended   <-chan struct{}
	group   *cgroup.Group
	started time.Time
	ready   chan struct{} // closes when it can fork, or has failed to start (err)
	err     error
	// releaseImage lets the image be removed.
	releaseImage func()
	gone         chan struct{} // closes when nothing more will be reported

	mu       sync.Mutex
	next     int
	forks    map[string]*fork
	released bool

	forkTimeout time.Duration
}

// fork is a session under way or alive.
type fork struct {
	answer chan error
	pid    int
	// tell is called once with the wait status.
	tell func(status uint32)
}

// warmUp forks an interpreter into a new box and waits until it is ready.
func (b *Backend) warmUp(ctx context.Context, x *Box, kept *keeperProcess, class sandbox.Class) error {
	for attempt := 0; ; attempt++ {
		z, err := b.zygote(kept, class.Image)
		if err != nil {
			return err
		}
		err = x.forkInto(ctx, z, class.Warm)
		if errors.Is(err, errZygoteGone) && attempt == 0 {
			continue
		}
		return err
	}
}

// zygote returns a living zygote of the image under this keeper, starting one if there is none or the old one is due.
func (b *Backend) zygote(kept *keeperProcess, image string) (*zygoteProcess, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errors.New("the backend is closed")
	}
	z := b.zygotes[image]
	if z != nil && (z.keeper != kept || z.due()) {
		delete(b.zygotes, image)
		if err := z.release(); err != nil {
			b.config.Log.Warn("a zygote could not be removed", "error", err)
		}
		z = nil
	}
	if z == nil {
		b.zygoteCount++
		path := filepath.Join(b.lease.name(), "zygote"+strconv.Itoa(b.zygoteCount))
		z = &zygoteProcess{
			keeper: kept, uid: b.lease.first(), group: b.cgroups.Open(path), started: time.Now(),
			ready: make(chan struct{}), gone: make(chan struct{}), forks: make(map[string]*fork),
			forkTimeout: b.config.ForkTimeout,
		}
		b.zygotes[image] = z
		go z.start(b, path, image)
	}
	return z, nil
}

// due reports whether a zygote must not be asked any more.
func (z *zygoteProcess) due() bool {
	select {
	case <-z.gone:
		return true
	default:
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.released || z.next >= zygoteMaxForks || time.Since(z.started) > zygoteMaxAge
}

// start brings the zygote up; ready closes in any case.
func (z *zygoteProcess) start(b *Backend, path, image string) {
	z.err = z.launch(b, path, image)
	close(z.ready)
	if z.err != nil {
		b.config.Log.Error("the zygote did not start", "error", z.err)
		close(z.gone)
		return
	}
	go z.read()
}

func (z *zygoteProcess) launch(b *Backend, path, image string) error {
	rootfs, release, err := b.config.Rootfs(image)
	if err != nil {
		return err
	}
	z.releaseImage = release
	group, err := b.cgroups.Create(path)
	if err != nil {
		return err
	}
	if err := group.Set(cgroup.Limits{Memory: zygoteMemory, MilliCPU: 1000 * zygoteCPUs, PIDs: zygotePIDs}); err != nil {
		return err
	}
	if err := group.SetWeight(zygoteWeight); err != nil {
		return err
	}
	procs, err := group.Procs(z.uid)
	if err != nil {
		return err
	}
	defer closeFiles(procs)
	root, err := detachedTree(rootfs, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	ours, theirs, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		return err
	}
	defer theirs.Close()
	z.control = ours
	request := keeper.Request{Op: keeper.OpZygote, ID: filepath.Base(path)}
	ctx, cancel := context.WithTimeoutCause(context.Background(), zygoteTimeout, errors.New("the zygote did not start in time"))
	defer cancel()
	if z.pidfd, z.ended, err = z.keeper.start(ctx, request, append([]*os.File{theirs, root}, procs...)); err != nil {
		return err
	}
	_ = theirs.Close() // otherwise its end would not show
	spec := zygote.Spec{Args: b.config.Zygote, Env: zygoteEnvironment(), Cgroups: len(procs)}
	description, err := json.Marshal(warmConfinement(len(procs), b.without))
	if err != nil {
		return err
	}
	for _, first := range []any{spec, zygote.Setup{Confine: description}} {
		if err := packet.Send(int(ours.Fd()), first); err != nil {
			return err
		}
	}
	return z.awaitReady()
}

const (
	// zygoteCPUs lets a zygote import in parallel with what runs; it idles afterwards.
	zygoteCPUs = 2
	// zygoteWeight: mostly it works ahead, but now and then somebody waits for its fork.
	zygoteWeight = cgroup.WeightNormal / 2
)

// zygoteEnvironment is what sessions inherit until their lease replaces it. Libraries read the thread counts when they
// are imported: a zygote must have one thread, or its forks would lack the others.
func zygoteEnvironment() []string {
	return []string{
		"HOME=" + layout.Workspace, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TZ=UTC", "TMPDIR=" + layout.Tmp,
		"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1",
		"POLARS_MAX_THREADS=1",
	}
}

func (z *zygoteProcess) awaitReady() error {
	timeout := unix.NsecToTimeval(int64(zygoteTimeout))
	if err := unix.SetsockoptTimeval(int(z.control.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return err
	}
	var report zygote.Report
	_, more, err := packet.Receive(int(z.control.Fd()), &report)
	switch {
	case err != nil:
		return fmt.Errorf("wait for the zygote: %w", err)
	case !more:
		return errors.New("the zygote ended before it was ready (its own words are in the log)")
	case !report.Ready || report.Threads != 1:
		return fmt.Errorf("the zygote is not fit to fork: ready %v, %d threads", report.Ready, report.Threads)
	}
	never := unix.Timeval{}
	return unix.SetsockoptTimeval(int(z.control.Fd()), unix.SOL_SOCKET, unix.SO_RCVTIMEO, &never)
}

// read takes reports until the zygote is gone. Its living sessions then belong to the keeper, which reaps them.
func (z *zygoteProcess) read() {
	for {
		var report zygote.Report
		files, more, err := packet.Receive(int(z.control.Fd()), &report)
		closeFiles(files) // a pidfd: the box's own is enough to end the session
		if err != nil || !more {
			break
		}
		z.take(report)
	}
	z.kill()
	z.mu.Lock()
	forks := z.forks
	z.forks = nil
	z.mu.Unlock()
	z.keeper.mu.Lock()
	for _, f := range forks {
		if f.pid == 0 {
			f.answer <- errZygoteGone
		} else {
			z.keeper.orphans.wait(f.pid, f.tell)
		}
	}
	z.keeper.mu.Unlock()
	close(z.gone)
}

func (z *zygoteProcess) take(report zygote.Report) {
	z.mu.Lock()
	defer z.mu.Unlock()
	f := z.forks[report.ID]
	if f == nil {
		return
	}
	switch {
	case report.Ended:
		delete(z.forks, report.ID)
		go f.tell(report.Status) // a guest that does not read must not stop the others' news
	case report.Error != "":
		delete(z.forks, report.ID)
		f.answer <- fmt.Errorf("the zygote could not fork: %s", report.Error)
	default:
		f.pid = report.PID
		f.answer <- nil
	}
}

// fork asks for a session with these ends.
func (z *zygoteProcess) fork(ctx context.Context, request zygote.Fork, files []*os.File, tell func(uint32)) error {
	select {
	case <-z.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if z.err != nil {
		return fmt.Errorf("start the zygote: %w", z.err)
	}
	f := &fork{answer: make(chan error, 1), tell: tell}
	z.mu.Lock()
	if z.forks == nil {
		z.mu.Unlock()
		return errZygoteGone
	}
	z.next++
	request.ID = strconv.Itoa(z.next)
	z.forks[request.ID] = f
	err := packet.Send(int(z.control.Fd()), request, files...)
	z.mu.Unlock()
	if err != nil {
		z.kill()
		return errZygoteGone
	}
	stuck := time.NewTimer(z.forkTimeout)
	defer stuck.Stop()
	select {
	case err := <-f.answer:
		return err
	case <-ctx.Done(): // a caller that gives up says nothing about the zygote; the fork ends with its box
		return context.Cause(ctx)
	case <-stuck.C:
		z.kill() // it is replaced; its living sessions go on under the keeper
		return errors.New("the zygote is stuck")
	}
}

func (z *zygoteProcess) kill() {
	if z.pidfd != nil {
		_ = unix.PidfdSendSignal(int(z.pidfd.Fd()), unix.SIGKILL, nil, 0) // gone already is fine
	}
}

// release ends a zygote; its sessions live on.
func (z *zygoteProcess) release() error {
	z.mu.Lock()
	if z.released {
		z.mu.Unlock()
		return nil
	}
	z.released = true
	z.mu.Unlock()
	<-z.ready
	z.kill()
	<-z.gone
	if z.control != nil {
		_ = z.control.Close()
	}
	if z.pidfd != nil {
		_ = z.pidfd.Close()
	}
	if z.releaseImage != nil {
		z.releaseImage()
	}
	return endGroup(z.group)
}

// forkInto makes the ends of a session, has it forked into the box, and gives the guest its ends.
func (x *Box) forkInto(ctx context.Context, z *zygoteProcess, warmth sandbox.Warmth) error {
	ends, err := x.openSessionEnds(z.uid)
	if err != nil {
		return err
	}
	defer ends.close()
	request := zygote.Fork{Chart: warmth == sandbox.WarmChart}
	var exited exitNews
	if err := z.fork(ctx, request, ends.theirs(x.pidfd), exited.tell); err != nil {
		return err
	}
	ends.closeTheirs()
	x.warm, err = x.conn.Adopt(ctx, func(id uint32) error {
		exited.to(x.conn, id)
		return packet.Send(int(x.lane.Fd()), wire.Adopt{ID: id}, ends.ours()...)
	})
	return err
}

// warmConfinement is that of every forked session: the hard limits of its lease come when it is prepared, and can only
// be lower than these.
func warmConfinement(cgroups int, without layer.Set) confine.Spec {
	return confine.Template(confine.Limits{
		OpenFiles: 1 << 16, Processes: 1 << 16, FileSize: math.MaxInt64, CPUTime: math.MaxInt32,
	}, cgroups, without)
}

// exitNews carries a wait status to a guest that may not know the session yet when it comes.
type exitNews struct {
	mu     sync.Mutex
	conn   *link.Conn
	id     uint32
	status *uint32
}

func (n *exitNews) tell(status uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.status = &status
	n.sendLocked()
}

func (n *exitNews) to(conn *link.Conn, id uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conn, n.id = conn, id
	n.sendLocked()
}

func (n *exitNews) sendLocked() {
	if n.conn != nil && n.status != nil {
		n.conn.Exited(n.id, *n.status)
	}
}

// sessionEnds are both sides of a forked session's channel and output, and the control groups it joins.
type sessionEnds struct {
	channel, stdout, stderr                *os.File // the guest's
	theirChannel, theirStdout, theirStderr *os.File
	procs                                  []*os.File
}

func (x *Box) openSessionEnds(uid int) (_ *sessionEnds, err error) {
	e := &sessionEnds{}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	if e.channel, e.theirChannel, err = socketPair(unix.SOCK_STREAM); err != nil {
		return nil, err
	}
	if e.stdout, e.theirStdout, err = os.Pipe(); err != nil {
		return nil, err
	}
	if e.stderr, e.theirStderr, err = os.Pipe(); err != nil {
		return nil, err
	}
	e.procs, err = x.user.Procs(uid) // a fork joins while it is still the zygote's
	return e, err
}

// theirs lists the descriptors of a zygote.Fork.
func (e *sessionEnds) theirs(box *os.File) []*os.File {
	return append([]*os.File{box, e.theirChannel, e.theirStdout, e.theirStderr}, e.procs...)
}

// ours lists the descriptors of a wire.Adopt.
func (e *sessionEnds) ours() []*os.File { return []*os.File{e.channel, e.stdout, e.stderr} }

// closeTheirs closes what the session now holds itself: while we held it too, its end would not show.
func (e *sessionEnds) closeTheirs() {
	closeFiles([]*os.File{e.theirChannel, e.theirStdout, e.theirStderr})
}

func (e *sessionEnds) close() {
	e.closeTheirs()
	closeFiles(e.ours())
	closeFiles(e.procs)
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // nil is an error and no harm
	}
}
