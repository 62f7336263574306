// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// MinFreeBytes is the free space that a build asks for before it starts: the
// default image takes 1.6 GB, and downloads and unpacking pass through as much again.
const MinFreeBytes = 4 << 30

// BuildOptions are the choices of one build. The zero value is the usual build.
type BuildOptions struct {
	// Progress receives a line for each step, as it begins to wait or has ended.
	// Nil discards them. Writes come from one goroutine.
	Progress io.Writer
	// Programs are files that the caller's program needs in every image; they are
	// put into /usr/lib/glovebox and are part of the image's key. Nil means none.
	Programs fs.FS
	// Refresh makes every step again, although nothing of its definition changed,
	// so that the base gets the mirror's newest packages.
	Refresh bool
}

// steps does the work of the three steps. Each method fills the empty folder it
// is given, or fails; the caller deletes the folder of a failed step. Methods are
// called one after the other, each at most once in a build.
type steps interface {
	// Ready tells what is missing on this system for building l, before anything is made.
	Ready(ctx context.Context, l *loaded) error
	// Base unpacks the Debian packages into the root filesystem root.
	Base(ctx context.Context, l *loaded, root string) error
	// Python unpacks the wheels into root, which holds nothing else.
	Python(ctx context.Context, l *loaded, root string) error
	// Node unpacks packages of npm into root, which holds nothing else.
	Node(ctx context.Context, l *loaded, root string) error
	// Finish completes root, which holds links into the layers, and describes it.
	Finish(ctx context.Context, l *loaded, root string) (Manifest, error)
}

// Build makes the image of the definition in folder and gives it the definition's
// name; sandboxes that run keep the image they have. When nothing changed it
// returns the existing image. It waits while another build runs. A build that is
// cut short, even by a kill, leaves the store as it was, but for finished steps,
// which the next build takes over.
func (s *Store) Build(ctx context.Context, folder fs.FS, options BuildOptions) (Image, error) {
	l, err := load(folder, options.Programs)
	if err != nil {
		return Image{}, err
	}
	b := build{store: s, l: l, options: options, progress: options.Progress}
	if b.progress == nil {
		b.progress = io.Discard
	}
	image, err := b.run(ctx)
	return image, classify(ctx, fmt.Sprintf("build image %q", l.Name), err)
}

// Stale tells whether Build with the same arguments would make another image than
// the definition's name stands for now. The error is of KindNotBuilt when there is none.
func (s *Store) Stale(folder fs.FS, options BuildOptions) (bool, error) {
	l, err := load(folder, options.Programs)
	if err != nil {
		return false, err
	}
	image, err := s.Resolve(l.Name)
	if err != nil {
		return false, err
	}
	arch, _ := architectureOf(runtime.GOARCH)
	return image.Key != keysOf(l, arch.Debian).finish, nil
}

// build is one run of Build.
type build struct {
	store    *Store
	l        *loaded
	options  BuildOptions
	progress io.Writer
	keys     keys
	tmp      string // this build's folder for work in progress
}

func (b *build) run(ctx context.Context) (Image, error) {
	s := b.store
	arch, ok := architectureOf(runtime.GOARCH)
	if !ok {
		return Image{}, &Error{Kind: KindInvalid, Text: "images are built for amd64 and arm64, this machine is " + runtime.GOARCH}
	}
	b.keys = keysOf(b.l, arch.Debian)
	unlock, err := s.lock(ctx, b.progress)
	if err != nil {
		return Image{}, err
	}
	defer unlock()
	if image, err := s.Resolve(b.l.Name); err == nil && image.Key == b.keys.finish && !b.options.Refresh {
		b.say("image", "nothing changed since %s", image.Created.Format(time.DateTime))
		return image, nil
	}
	if err := s.sweep(); err != nil {
		return Image{}, err
	}
	if err := b.checkSpace(); err != nil {
		return Image{}, err
	}
	if err := s.steps.Ready(ctx, b.l); err != nil {
		return Image{}, err
	}
	if b.tmp, err = os.MkdirTemp(s.dir, tmpPrefix+"build-"); err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(b.tmp)
	return b.make(ctx)
}

func (b *build) checkSpace() error {
	free, err := b.store.free(b.store.dir)
	if err != nil {
		return err
	}
	if free < MinFreeBytes {
		return &Error{Kind: KindDisk, Text: fmt.Sprintf("%s has %s free, a build needs %s: free some space or choose another data folder",
			b.store.dir, megabytes(int64(free)), megabytes(MinFreeBytes))}
	}
	return nil
}

// make runs the steps. The lock is held and b.tmp exists.
func (b *build) make(ctx context.Context) (Image, error) {
	if err := os.Chmod(b.tmp, 0o755); err != nil {
		return Image{}, err
	}
	base, err := b.layer(ctx, b.keys.base, b.store.steps.Base)
	if err != nil {
		return Image{}, err
	}
	layers := []string{base}
	if b.keys.python != "" {
		python, err := b.layer(ctx, b.keys.python, b.store.steps.Python)
		if err != nil {
			return Image{}, err
		}
		layers = append(layers, python)
	}
	if b.keys.node != "" {
		node, err := b.layer(ctx, b.keys.node, b.store.steps.Node)
		if err != nil {
			return Image{}, err
		}
		layers = append(layers, node)
	}
	return b.finish(ctx, layers)
}

// layer returns the folder of the step with the key, made now if it is missing.
func (b *build) layer(ctx context.Context, key string, make func(context.Context, *loaded, string) error) (string, error) {
	step, _, _ := strings.Cut(key, "-")
	final := filepath.Join(b.store.dir, layersName, key)
	if _, err := os.Stat(final); err == nil {
		if !b.options.Refresh {
			b.say(step, "unchanged")
			return final, nil
		}
	}
	begun := b.store.now()
	b.say(step, "working …")
	root := filepath.Join(b.tmp, step)
	if err := os.Mkdir(root, 0o755); err != nil {
		return "", err
	}
	if err := make(ctx, b.l, root); err != nil {
		return "", fmt.Errorf("step %s: %w", step, err)
	}
	sum, err := measureTree(ctx, root)
	if err != nil {
		return "", fmt.Errorf("step %s: %w", step, err)
	}
	if err := b.replace(root, final); err != nil {
		return "", err
	}
	b.say(step, "%s in %d files, %s", megabytes(sum.size), sum.files, b.since(begun))
	return final, nil
}

// replace moves the finished tree to its place, after moving away what is there.
func (b *build) replace(tree, final string) error {
	if _, err := os.Lstat(final); err == nil {
		if err := b.store.discard(final); err != nil {
			return err
		}
	}
	return os.Rename(tree, final)
}

// finish joins the layers, completes the image and gives it its name.
func (b *build) finish(ctx context.Context, layers []string) (Image, error) {
	begun := b.store.now()
	b.say("finish", "working …")
	home := filepath.Join(b.tmp, "image")
	root := filepath.Join(home, rootfsName)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Image{}, err
	}
	for _, layer := range layers {
		if err := linkTree(ctx, layer, root); err != nil {
			return Image{}, fmt.Errorf("join the layers: %w", err)
		}
	}
	manifest, err := b.store.steps.Finish(ctx, b.l, root)
	if err != nil {
		return Image{}, fmt.Errorf("step finish: %w", err)
	}
	sum, err := digestTree(ctx, root)
	if err != nil {
		return Image{}, fmt.Errorf("step finish: %w", err)
	}
	manifest.Version = manifestVersion
	manifest.Name, manifest.Description = b.l.Name, b.l.Description
	manifest.Digest, manifest.Size, manifest.Files = sum.digest, sum.size, sum.files
	manifest.Created = b.store.now().UTC().Truncate(time.Second)
	manifest.Suite, manifest.Preload = b.l.Base.Suite, b.l.Preload
	manifest.Key = b.keys.finish
	for _, layer := range layers {
		manifest.Layers = append(manifest.Layers, filepath.Base(layer))
	}
	image, err := b.publish(home, manifest)
	if err != nil {
		return Image{}, err
	}
	b.say("finish", "%s in %d files, %s", megabytes(sum.size), sum.files, b.since(begun))
	return image, nil
}

// publish writes the manifest, moves the image to its place and points the name
// at it. Then it deletes what nothing needs any more.
func (b *build) publish(home string, manifest Manifest) (Image, error) {
	s := b.store
	data, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return Image{}, err
	}
	if err := os.WriteFile(filepath.Join(home, manifestName), append(data, '\n'), 0o644); err != nil {
		return Image{}, err
	}
	if err := os.WriteFile(pinPath(home), nil, 0o644); err != nil {
		return Image{}, err
	}
	if err := os.Chmod(home, 0o755); err != nil {
		return Image{}, err
	}
	if err := syncFilesystem(s.dir); err != nil {
		return Image{}, err
	}
	short := strings.TrimPrefix(manifest.Digest, digestPrefix)[:32]
	final := filepath.Join(s.dir, builtName, short)
	// The same content may be there already, even in use: then its manifest is replaced and nothing else.
	if _, err := os.Lstat(filepath.Join(final, rootfsName)); err == nil {
		err = os.Rename(filepath.Join(home, manifestName), filepath.Join(final, manifestName))
		if err != nil {
			return Image{}, err
		}
	} else if err := os.Rename(home, final); err != nil {
		return Image{}, err
	}
	link := filepath.Join(b.tmp, "name")
	if err := os.Symlink(filepath.Join(builtName, short), link); err != nil {
		return Image{}, err
	}
	if err := os.Rename(link, filepath.Join(s.dir, manifest.Name)); err != nil {
		return Image{}, err
	}
	if err := s.collect(); err != nil {
		return Image{}, fmt.Errorf("image %q is built, but cleaning up failed: %w", manifest.Name, err)
	}
	return s.Resolve(manifest.Name)
}

// say writes a progress line.
func (b *build) say(step, format string, args ...any) {
	fmt.Fprintf(b.progress, "%-7s "+format+"\n", append([]any{step}, args...)...)
}

func (b *build) since(begun time.Time) string {
	return b.store.now().Sub(begun).Round(100 * time.Millisecond).String()
}

func megabytes(n int64) string {
	const mega = 1_000_000
	return fmt.Sprintf("%d MB", (n+mega/2)/mega)
}
