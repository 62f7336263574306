// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// lockPoll is how often a waiting build asks for the lock again. The kernel has
// no wait for a file lock that a context could end.
const lockPoll = 200 * time.Millisecond

// lock takes the store's lock, so that one build or removal runs at a time, in
// this process and all others. It waits for as long as ctx allows, and says so
// once on progress. The returned function gives the lock back.
func (s *Store) lock(ctx context.Context, progress io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for said := false; ; said = true {
		ok, err := tryLock(file)
		if err != nil {
			_ = file.Close() // it is only a lock
			return nil, err
		}
		if ok {
			return func() { _ = file.Close() }, nil
		}
		if !said {
			fmt.Fprintln(progress, "another build or removal of an image is running: waiting for it")
		}
		select {
		case <-ctx.Done():
			_ = file.Close() // it is only a lock
			return nil, context.Cause(ctx)
		case <-poll.C:
		}
	}
}

// Pin keeps the image from being removed until release is called, or this
// process ends: a build that replaces the image, or Remove, leaves it on disk.
// Every process that uses Rootfs holds a pin. The error is of KindNotBuilt when
// the image was removed after it was resolved.
func (i Image) Pin() (release func(), err error) {
	path := pinPath(filepath.Dir(i.Rootfs))
	gone := func(err error) error {
		return &Error{Kind: KindNotBuilt, Text: fmt.Sprintf("image %q (%s) was removed meanwhile: resolve it again", i.Name, i.Digest), Err: err}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, gone(err)
	}
	// A removal may hold the lock, for as long as it takes to move the image away.
	if err := lockFile(file); err != nil {
		_ = file.Close() // it is only a lock
		return nil, gone(err)
	}
	here, err := file.Stat()
	if err == nil {
		var there os.FileInfo
		if there, err = os.Stat(path); err == nil && os.SameFile(here, there) {
			return func() { _ = file.Close() }, nil
		}
	}
	_ = file.Close() // it is only a lock
	return nil, gone(err)
}

// pinPath is the lock file of a finished image's folder.
func pinPath(built string) string { return filepath.Join(built, "pin") }

// claim makes sure that nobody pins the image in the folder built, now or until
// release is called. It tells whether it did; it does not wait.
func claim(built string) (release func(), claimed bool, err error) {
	file, err := os.OpenFile(pinPath(built), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, false, err
	}
	claimed, err = tryLock(file)
	if err != nil || !claimed {
		_ = file.Close() // it is only a lock
		return nil, false, err
	}
	return func() { _ = file.Close() }, true, nil
}
