// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	definitions "glovebox/images"
	"glovebox/internal/artifact"
	"glovebox/internal/config"
	"glovebox/internal/engine"
	"glovebox/internal/image"
	"glovebox/internal/interpreter"
	"glovebox/internal/rootless"
	"glovebox/internal/sandbox"
	"glovebox/internal/store"
)

// Options are what tests replace; the zero value is the real thing.
type Options struct {
	// Backends is the list to choose from; nil is Backends().
	Backends []Constructor
	// Images resolves images; nil is the store in the data folder.
	Images engine.Images
	// Pool keeps warm sandboxes ready, as a server does; a single run has no use for them.
	Pool bool
	// Hurry, if set, ends the drain of a server when it closes.
	Hurry <-chan struct{}
	// Namespace is the user namespace of this process.
	Namespace rootless.Namespace
	// Account and Observer are told what is used and what happens; nil for nobody.
	Account  engine.Account
	Observer engine.Observer
	// Reload, if set, asks a server to take over the configuration that Reread returns.
	Reload <-chan os.Signal
	Reread func() (config.Config, error)
	// Level, if set, is that of the log, for a new configuration to change.
	Level *slog.LevelVar
	// Keep has executions kept in the database and the bucket, as a server does.
	Keep bool
	// Executions is the folder for running executions; empty is one in the data folder.
	Executions string
}

// System is an engine and what it stands on.
type System struct {
	Engine   *engine.Engine
	backends []sandbox.Backend
	store    *engine.Store
	// database and blobs are nil unless executions are kept.
	database *store.Store
	blobs    *store.Blobs
	log      *slog.Logger
}

// Open makes a System. What is missing for good is a Problem.
func Open(c config.Config, options Options, log *slog.Logger) (*System, error) {
	if err := dataFolder(c.Data); err != nil {
		return nil, err
	}
	s := &System{log: log}
	if err := s.open(c, options); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *System) open(c config.Config, options Options) error {
	images, rootfs, err := openImages(c, options)
	if err != nil {
		return err
	}
	if s.backends, err = openBackends(c, options, rootfs, s.log); err != nil {
		return err
	}
	newID := engine.NewIDs()
	if options.Pool {
		if err := s.pool(context.Background(), c, images, newID); err != nil {
			return err
		}
	}
	executions := options.Executions
	if executions == "" {
		executions = filepath.Join(c.Data, "executions")
	}
	if err := s.openStore(c, options.Keep, executions); err != nil {
		return err
	}
	s.Engine, err = engine.New(engine.Config{
		Backends: s.backends, Images: images, Store: s.store, Image: c.Image, Policy: c.Policy, Maxima: c.Maxima.Limits(),
		Artifacts: artifact.DefaultLimits(), MaxRunning: c.MaxRunning, MaxQueued: c.MaxQueued, QueuedEach: c.MaxQueuedEach,
		QueueWait: time.Duration(c.QueueWait), Patience: engine.DefaultPatience(), Log: s.log, Now: time.Now, NewID: newID,
		Account: options.Account, Observer: options.Observer,
	})
	return err
}

// openBackends makes the backends that the configuration allows: the named one, or all that this host can have.
func openBackends(c config.Config, options Options, rootfs rootfsFunc, log *slog.Logger) ([]sandbox.Backend, error) {
	list := options.Backends
	if list == nil {
		list = Backends()
	}
	settings := settingsOf(c, options, rootfs, log)
	var backends []sandbox.Backend
	var faults []error
	for _, constructor := range list {
		if c.Backend != engine.AutoBackend && c.Backend != constructor.Name {
			continue
		}
		backend, err := constructor.New(settings)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		backends = append(backends, backend)
	}
	if len(backends) == 0 && len(faults) == 0 {
		return nil, &engine.Problem{Code: engine.CodeBackend, Text: fmt.Sprintf("backend %q is not known", c.Backend)}
	}
	if len(backends) == 0 {
		err := errors.Join(faults...)
		return nil, &engine.Problem{Code: engine.CodeBackend, Err: err, Text: fmt.Sprintf(
			"no backend can be used on this host: %v; `glovebox doctor` says how to mend it", err)}
	}
	return backends, nil
}

func settingsOf(c config.Config, options Options, rootfs rootfsFunc, log *slog.Logger) Settings {
	return Settings{
		State: filepath.Join(c.Data, "backends"), Runtime: c.Runtime, Rootfs: rootfs, Log: log,
		AcceptMissing: c.AcceptMissing, Namespace: options.Namespace,
	}
}

// Backends returns the backends, the strongest first.
func (s *System) Backends() []sandbox.Backend { return s.backends }

// Reclaim destroys what an earlier process left on this host.
func (s *System) Reclaim(ctx context.Context) {
	for _, backend := range s.backends {
		for handle, err := range backend.Leftovers(ctx) {
			if err == nil {
				err = backend.Reclaim(ctx, handle)
			}
			if err != nil {
				s.log.WarnContext(ctx, "reclaiming a leftover failed", "backend", backend.Name(), "id", handle.ID, "error", err)
				continue
			}
			s.log.InfoContext(ctx, "reclaimed a leftover", "backend", backend.Name(), "id", handle.ID)
		}
	}
}

// Close lets running executions go on until ctx ends, cancels the rest, and releases everything.
func (s *System) Close(ctx context.Context) error {
	s.Engine.Close(ctx)
	return s.close()
}

func (s *System) close() error {
	var errs []error
	for _, backend := range s.backends {
		if err := backend.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close backend %s: %w", backend.Name(), err))
		}
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	if s.database != nil {
		errs = append(errs, s.database.Close())
	}
	return errors.Join(errs...)
}

// dataFolder makes the data folder: its owner alone writes, but the users of sandboxes must pass to the images beneath.
func dataFolder(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return storageProblem(path, err)
	}
	probe, err := os.CreateTemp(path, ".probe-*")
	if err != nil {
		return storageProblem(path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// storageProblem says what to do about a data folder that cannot be used.
func storageProblem(path string, err error) error {
	advice := "choose another one with GLOVEBOX_DATA or --data"
	switch {
	case errors.Is(err, fs.ErrPermission):
		advice = "run as its owner, or choose another one with GLOVEBOX_DATA or --data"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "free some space, or choose another one with GLOVEBOX_DATA or --data"
	case errors.Is(err, syscall.EROFS):
		advice = "it is on a read-only file system: choose another one with GLOVEBOX_DATA or --data"
	}
	return &engine.Problem{Code: engine.CodeStorage, Err: err, Text: fmt.Sprintf("data folder %s cannot be used: %v; %s", path, err, advice)}
}

// rootfsFunc finds the root folder of an image by its reference and keeps it from being removed until it is released.
type rootfsFunc func(image string) (dir string, release func(), err error)

// openImages returns the resolver of images and the way from a reference to a root folder.
func openImages(c config.Config, options Options) (engine.Images, rootfsFunc, error) {
	if options.Images != nil {
		return options.Images, func(ref string) (string, func(), error) { return ref, func() {}, nil }, nil
	}
	store, err := image.Open(c.Data)
	if err != nil {
		return nil, nil, storageProblem(c.Data, err)
	}
	rootfs := func(ref string) (string, func(), error) {
		found, err := store.Show(ref)
		if err != nil {
			return "", nil, err
		}
		release, err := found.Pin()
		return found.Rootfs, release, err
	}
	return &images{store: store}, rootfs, nil
}

// images is the engine's view of the image store.
type images struct {
	store *image.Store
	// stale remembers by digest whether an image was built with other programs than this binary speaks with.
	stale sync.Map
}

// outOfDate reports whether a built-in image holds the programs of another version. Those of other definitions are not
// known here.
func (i *images) outOfDate(found image.Image) bool {
	if known, ok := i.stale.Load(found.Digest); ok {
		return known == true
	}
	folder, err := definitions.Definition(found.Name)
	if err != nil {
		return false
	}
	stale, err := i.store.Stale(folder, image.BuildOptions{Programs: interpreter.Files()})
	if err != nil {
		return false // Pin says what is wrong
	}
	i.stale.Store(found.Digest, stale)
	return stale
}

// Use resolves name and pins the image.
func (i *images) Use(name string) (string, func(), error) {
	found, err := i.store.Show(name)
	if err == nil && i.outOfDate(found) {
		return "", nil, &engine.Problem{Code: engine.CodeImage, Text: fmt.Sprintf(
			"image %q was built by another version of glovebox: run `glovebox image build %s`; only what changed is made again; "+
				"if a running server says this of an image that was just built, the server is the other version: start it again", found.Name, found.Name)}
	}
	if err == nil {
		var release func()
		if release, err = found.Pin(); err == nil {
			return found.Digest, release, nil
		}
	}
	code := engine.CodeInternal
	switch image.KindOf(err) {
	case image.KindNotBuilt:
		if _, unknown := definitions.Definition(name); unknown != nil {
			return "", nil, i.unknown(name, err)
		}
		code = engine.CodeImage
	case image.KindInvalid:
		code = engine.CodeInvalid
	case image.KindFailed, image.KindInUse, image.KindTool, image.KindPrivilege, image.KindDisk, image.KindNetwork, image.KindCanceled:
	}
	return "", nil, &engine.Problem{Code: code, Text: err.Error(), Err: err}
}

// unknown refuses a name that nothing here stands for: it is the caller's mistake, and building it would not help.
func (i *images) unknown(name string, cause error) error {
	built, _ := i.store.List() // those that can be read
	names := make([]string, 0, len(built))
	for _, one := range built {
		names = append(names, one.Name)
	}
	advice := "none is built yet: run `glovebox image build " + definitions.Names()[0] + "`"
	if len(names) > 0 {
		advice = "choose one of " + strings.Join(names, ", ")
	}
	return &engine.Problem{Code: engine.CodeInvalid, Err: cause, Text: fmt.Sprintf("there is no image %q: %s", name, advice)}
}

// Diagnosis is what a backend says about this host.
type Diagnosis struct {
	Backend      string
	Capabilities sandbox.Capabilities
	Err          error
}

// Diagnose probes every backend of the list, one after the other.
func Diagnose(ctx context.Context, c config.Config, options Options, log *slog.Logger) ([]Diagnosis, error) {
	if err := dataFolder(c.Data); err != nil {
		return nil, err
	}
	_, rootfs, err := openImages(c, options)
	if err != nil {
		return nil, err
	}
	list := options.Backends
	if list == nil {
		list = Backends()
	}
	var found []Diagnosis
	for _, constructor := range list {
		one := Diagnosis{Backend: constructor.Name}
		backend, err := constructor.New(settingsOf(c, options, rootfs, log))
		if err == nil {
			one.Capabilities, err = backend.Probe(ctx)
			err = errors.Join(err, backend.Close())
		}
		one.Err = err
		found = append(found, one)
	}
	return found, nil
}
