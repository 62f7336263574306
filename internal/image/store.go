// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Names in the store's folder; see the package comment.
const (
	lockName   = "lock"
	layersName = "layers"
	builtName  = "built"
	tmpPrefix  = "tmp-"
)

// Names in the folder of a finished image.
const (
	rootfsName   = "rootfs"
	manifestName = "manifest.json"
)

// maxManifestBytes bounds what is read of a manifest.json.
const maxManifestBytes = 4 << 20

// Store is the folder of images below a data folder. Its methods may be called
// by any number of goroutines and processes at once.
type Store struct {
	dir   string
	steps steps
	free  func(dir string) (uint64, error)
	now   func() time.Time
}

// Open returns the store in the data folder dataDir (its subfolder "images"),
// which is made when it is missing.
func Open(dataDir string) (*Store, error) {
	dir, err := filepath.Abs(filepath.Join(dataDir, "images"))
	if err != nil {
		return nil, &Error{Text: "open the image store", Err: err}
	}
	for _, name := range []string{"", layersName, builtName} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return nil, &Error{Text: "open the image store in " + dataDir, Err: err}
		}
	}
	return &Store{dir: dir, steps: hostSteps{}, free: freeBytes, now: time.Now}, nil
}

// List returns all images in the order of their names. An image that cannot be
// read is left out and joined into the error; the others are returned with it.
func (s *Store) List() ([]Image, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, &Error{Text: "list the images", Err: err}
	}
	var images []Image
	var faults []error
	for _, entry := range entries {
		if checkName(entry.Name()) != nil || entry.Type()&fs.ModeSymlink == 0 {
			continue
		}
		image, err := s.Resolve(entry.Name())
		if err != nil {
			faults = append(faults, err)
			continue
		}
		images = append(images, image)
	}
	return images, errors.Join(faults...)
}

// Show is Resolve for people: it also accepts the first 8 or more hexadecimal
// digits of a digest.
func (s *Store) Show(nameOrDigest string) (Image, error) {
	image, err := s.Resolve(nameOrDigest)
	prefix := strings.TrimPrefix(nameOrDigest, digestPrefix)
	const shortest = 8
	if err == nil || len(prefix) < shortest {
		return image, err
	}
	entries, readErr := os.ReadDir(filepath.Join(s.dir, builtName))
	if readErr != nil {
		return Image{}, &Error{Text: "look for an image", Err: readErr}
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) || strings.HasPrefix(prefix, entry.Name()) {
			return readImage(filepath.Join(s.dir, builtName, entry.Name()))
		}
	}
	return Image{}, err
}

// Resolve returns the image that name stands for now. The error is of
// KindNotBuilt when there is none, KindInvalid when name cannot be one.
func (s *Store) Resolve(name string) (Image, error) {
	if err := checkName(name); err != nil {
		return Image{}, &Error{Kind: KindInvalid, Text: "look for an image", Err: err}
	}
	built, err := filepath.EvalSymlinks(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return Image{}, notBuilt(name)
	}
	if err != nil {
		return Image{}, &Error{Text: fmt.Sprintf("read image %q", name), Err: err}
	}
	return readImage(built)
}

func notBuilt(name string) error {
	return &Error{Kind: KindNotBuilt, Text: fmt.Sprintf("image %[1]q is not built: run `glovebox image build %[1]s`", name)}
}

// readImage reads the finished image in the folder built.
func readImage(built string) (Image, error) {
	image := Image{Rootfs: filepath.Join(built, rootfsName)}
	data, err := readFile(os.DirFS(built), manifestName, maxManifestBytes)
	if err == nil {
		err = json.Unmarshal(data, &image.Manifest)
	}
	if err == nil && image.Version != manifestVersion {
		err = fmt.Errorf("its format is version %d, this program reads version %d", image.Version, manifestVersion)
	}
	if err != nil {
		return Image{}, &Error{Text: fmt.Sprintf("the image in %s cannot be used: build it again", built), Err: err}
	}
	return image, nil
}

// Remove takes the name away, and deletes the image and its layers unless
// another name needs them. An image that a process pins is not removed: the
// error is of KindInUse. It waits for a running build.
func (s *Store) Remove(ctx context.Context, name string) error {
	text := fmt.Sprintf("remove image %q", name)
	unlock, err := s.lock(ctx, io.Discard)
	if err != nil {
		return classify(ctx, text, err)
	}
	defer unlock()
	image, err := s.Resolve(name)
	if KindOf(err) == KindNotBuilt || KindOf(err) == KindInvalid {
		return err
	}
	if err == nil {
		release, claimed, err := claim(filepath.Dir(image.Rootfs))
		if err != nil {
			return classify(ctx, text, err)
		}
		if claimed {
			release()
		}
		if !claimed && s.namesOf(filepath.Dir(image.Rootfs)) == 1 {
			return &Error{Kind: KindInUse, Text: fmt.Sprintf("image %q is in use: stop the server or the sandboxes that use it first", name)}
		}
	}
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		return classify(ctx, text, err)
	}
	return classify(ctx, text, s.collect())
}

// namesOf counts the names that stand for the finished image in built.
func (s *Store) namesOf(built string) (n int) {
	entries, _ := os.ReadDir(s.dir)
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink == 0 {
			continue
		}
		if target, err := filepath.EvalSymlinks(filepath.Join(s.dir, entry.Name())); err == nil && target == built {
			n++
		}
	}
	return n
}

// collect deletes finished images that no name and no pin holds, layers that no
// remaining image was made of, and what killed builds left. The caller holds the lock.
func (s *Store) collect() error {
	builtDir := filepath.Join(s.dir, builtName)
	entries, err := os.ReadDir(builtDir)
	if err != nil {
		return err
	}
	var faults []error
	var needed []string
	for _, entry := range entries {
		built := filepath.Join(builtDir, entry.Name())
		if s.namesOf(built) == 0 {
			gone, err := s.discardUnpinned(built)
			faults = append(faults, err)
			if gone {
				continue
			}
		}
		if image, err := readImage(built); err == nil {
			needed = append(needed, image.Layers...)
		}
	}
	layers, err := os.ReadDir(filepath.Join(s.dir, layersName))
	faults = append(faults, err)
	for _, layer := range layers {
		if !slices.Contains(needed, layer.Name()) {
			faults = append(faults, s.discard(filepath.Join(s.dir, layersName, layer.Name())))
		}
	}
	return errors.Join(append(faults, s.sweep())...)
}

// discardUnpinned deletes the finished image in built unless a process pins it,
// and tells whether it did.
func (s *Store) discardUnpinned(built string) (bool, error) {
	release, claimed, err := claim(built)
	if err != nil || !claimed {
		return false, err
	}
	defer release()
	return true, s.discard(built)
}

// discard deletes a tree; at no moment is it half there under its own name.
func (s *Store) discard(path string) error {
	grave, err := os.MkdirTemp(s.dir, tmpPrefix+"discard-")
	if err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(grave, "tree")); err != nil {
		return errors.Join(err, os.RemoveAll(grave))
	}
	return os.RemoveAll(grave)
}

// sweep deletes what killed builds and removals left. The caller holds the lock,
// so that nothing of it is in use.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var faults []error
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tmpPrefix) {
			faults = append(faults, os.RemoveAll(filepath.Join(s.dir, entry.Name())))
		}
	}
	return errors.Join(faults...)
}
