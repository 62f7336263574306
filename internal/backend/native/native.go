// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"glovebox/internal/cgroup"
	"glovebox/internal/guest/embedded"
	"glovebox/internal/guest/layer"
	"glovebox/internal/interpreter"
	"glovebox/internal/sandbox"
)

// Name is how users choose this backend.
const Name = "native"

// Config is what the backend needs from its host.
type Config struct {
	// StateDir holds the uploads of living sandboxes. It is made if it is missing.
	StateDir string
	// RuntimeDir holds the locks of uid ranges; /run/glovebox in a usual installation.
	RuntimeDir string
	// Rootfs returns the root folder of an image, by name or digest. The folder must stay until release is called.
	Rootfs func(image string) (dir string, release func(), err error)
	// Language finds an interpreter; nil is the built-in table.
	Language func(name string) (args []string, found bool)
	// Zygote starts a zygote of the image; nil is the built-in one, for Python.
	Zygote []string
	// ForkTimeout is how long a zygote may take for one fork before it counts as stuck and is replaced; by itself 20 s.
	ForkTimeout time.Duration
	// AcceptMissing names layers that sandboxes are made without where the host lacks them: those of Acceptable.
	AcceptMissing []string
	// UIDs is how many uids the user namespace of this process has, if it is of a user (package rootless); otherwise 0.
	UIDs int
	// Rootless says why a user's namespace is not there, or has one uid alone.
	Rootless string
	// Log gets what operators should know; nothing in it comes from user code.
	Log *slog.Logger
}

// Backend implements sandbox.Backend.
type Backend struct {
	config  Config
	cgroups *cgroup.Host
	guest   *os.File
	lease   *uidRange
	// without are the layers that boxes go without, see package layer.
	without layer.Set

	probeOnce    sync.Once
	capabilities sandbox.Capabilities

	mu          sync.Mutex // guards what follows
	boxes       map[sandbox.ID]*Box
	slots       slots
	keeper      *keeperProcess
	zygotes     map[string]*zygoteProcess // by image
	zygoteCount int
	closed      bool
	pending     map[sandbox.ID]chan struct{} // creations under way
}

// New prepares the backend: it takes a range of uids and unpacks the guest. It starts nothing.
func New(config Config) (*Backend, error) {
	if config.Rootfs == nil || config.StateDir == "" || config.RuntimeDir == "" || config.Log == nil {
		return nil, errors.New("native: state folder, runtime folder, images and log are required")
	}
	if config.ForkTimeout <= 0 {
		config.ForkTimeout = 20 * time.Second
	}
	if config.Zygote == nil {
		config.Zygote = interpreter.Zygote()
	}
	if config.Language == nil {
		config.Language = builtinLanguage
	}
	cgroups, err := cgroup.Discover()
	if err != nil {
		return nil, fmt.Errorf("native: find control groups: %w", err)
	}
	guest, err := embedded.Guest()
	if err != nil {
		return nil, fmt.Errorf("native: %w", err)
	}
	for _, name := range config.AcceptMissing {
		if !slices.Contains(Acceptable(), name) {
			return nil, errors.Join(fmt.Errorf("native: accept_missing: %q is not one of %s", name, strings.Join(Acceptable(), ", ")), guest.Close())
		}
	}
	return &Backend{
		slots:  slots{most: spaceOf(config.UIDs).slots()},
		config: config, cgroups: cgroups, guest: guest,
		zygotes: make(map[string]*zygoteProcess), boxes: make(map[sandbox.ID]*Box), pending: make(map[sandbox.ID]chan struct{}),
	}, nil
}

func builtinLanguage(name string) ([]string, bool) {
	language, found := interpreter.Lookup(name)
	return language.Args, found
}

// Name returns the backend's name.
func (b *Backend) Name() string { return Name }

// Create builds a box and waits until its guest answers.
func (b *Backend) Create(ctx context.Context, id sandbox.ID, class sandbox.Class) (sandbox.Sandbox, error) {
	if !id.Valid() {
		return nil, fmt.Errorf("native: sandbox id %q is not valid", id)
	}
	if class.Network != sandbox.NetworkNone {
		return nil, &sandbox.UnsupportedError{Backend: Name, Feature: fmt.Sprintf("network %q", class.Network)}
	}
	if !slices.Contains(sandbox.Profiles(), class.Profile) {
		return nil, &sandbox.UnsupportedError{Backend: Name, Feature: fmt.Sprintf("profile %q", class.Profile)}
	}
	if class.Warm != sandbox.WarmNone && class.Warm != sandbox.WarmPlain && class.Warm != sandbox.WarmChart {
		return nil, &sandbox.UnsupportedError{Backend: Name, Feature: fmt.Sprintf("warmth %q", class.Warm)}
	}
	if err := b.available(ctx); err != nil {
		return nil, err
	}
	existing, done, err := b.claim(ctx, id)
	if existing != nil || err != nil {
		return existing, err
	}
	defer done()
	box, err := b.build(ctx, id, class)
	if errors.Is(err, errKeeperGone) {
		b.config.Log.WarnContext(ctx, "the keeper ended and took its sandboxes with it; starting another")
		box, err = b.build(ctx, id, class)
	}
	if err != nil {
		return nil, fmt.Errorf("native: create sandbox %s: %w", id, err)
	}
	return box, nil
}

var errClosed = errors.New("the backend was closed meanwhile")

// claim makes creation idempotent: one caller builds, others with the same id wait for it and get its sandbox.
func (b *Backend) claim(ctx context.Context, id sandbox.ID) (sandbox.Sandbox, func(), error) {
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return nil, nil, fmt.Errorf("native: %w: the backend is closed", sandbox.ErrUnavailable)
		}
		if box := b.boxes[id]; box != nil {
			b.mu.Unlock()
			return box, nil, nil
		}
		underWay := b.pending[id]
		if underWay == nil {
			finished := make(chan struct{})
			b.pending[id] = finished
			b.mu.Unlock()
			return nil, func() {
				b.mu.Lock()
				delete(b.pending, id)
				b.mu.Unlock()
				close(finished)
			}, nil
		}
		b.mu.Unlock()
		select {
		case <-underWay:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// available probes the host once and refuses, naming each missing layer, when it cannot hold a box.
func (b *Backend) available(ctx context.Context) error {
	capabilities, err := b.Probe(ctx)
	if err != nil {
		return err
	}
	if capabilities.Available {
		return nil
	}
	return fmt.Errorf("native: %w: missing %s", sandbox.ErrUnavailable, sandbox.DescribeLayers(capabilities.Missing()))
}

// uids takes this daemon's range of uids, once.
func (b *Backend) uids() (*uidRange, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	if b.lease != nil {
		return b.lease, nil
	}
	taken, err := takeRange(b.config.RuntimeDir, spaceOf(b.config.UIDs))
	if err != nil {
		return nil, err
	}
	if err := b.takeOver(taken); err != nil {
		return nil, errors.Join(err, taken.release())
	}
	b.lease = taken
	return taken, nil
}

// Close destroys every box and the keeper, and waits for the boxes that are being built, which fail. Idempotent.
func (b *Backend) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	boxes := make([]*Box, 0, len(b.boxes))
	for _, box := range b.boxes {
		boxes = append(boxes, box)
	}
	kept, lease, zygotes, pending := b.keeper, b.lease, b.zygotes, slices.Collect(maps.Values(b.pending))
	b.keeper, b.lease, b.zygotes = nil, nil, nil
	b.mu.Unlock()
	var errs []error
	for _, box := range boxes {
		errs = append(errs, box.Destroy(context.Background()))
	}
	if kept != nil {
		errs = append(errs, kept.close())
	}
	for _, underWay := range pending {
		<-underWay // without a keeper it fails, and removes what it has made
	}
	for _, zygote := range zygotes {
		errs = append(errs, zygote.release())
	}
	if lease != nil {
		errs = append(errs, b.cgroups.Open(lease.name()).Remove(),
			removeIfEmpty(b.folder(lease.name())), lease.release())
	}
	return errors.Join(append(errs, b.guest.Close())...)
}
