// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// refusal is a reason not to take a file that shows only while it is read.
type refusal struct{ reason Reason }

func (r *refusal) Error() string { return "not taken: " + string(r.reason) }

// copy reads source to its end into the store's next file and describes it. Reading fails as a refusal, writing as an
// error of ours.
func (c *collector) copy(source *os.File) (Artifact, error) {
	before, err := stat(source)
	if err != nil {
		return Artifact{}, err
	}
	if before.Mode&unix.S_IFMT != unix.S_IFREG {
		return Artifact{}, &refusal{ReasonSpecial}
	}
	if before.Size > c.options.Limits.Single || c.total+before.Size > c.options.Limits.Total {
		return Artifact{}, &refusal{ReasonChanged}
	}
	name := FileName(len(c.report.Artifacts))
	partial := name + ".partial"
	target, err := c.store.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Artifact{}, err
	}
	taken, err := c.stream(source, target, before.Size)
	err = errors.Join(err, target.Close())
	if err == nil {
		err = unchanged(source, before)
	}
	if err == nil {
		err = c.store.Rename(partial, name)
	}
	if err != nil {
		return Artifact{}, errors.Join(err, c.store.Remove(partial))
	}
	return taken, nil
}

// stream copies exactly size bytes, hashing and looking at both ends on the way.
func (c *collector) stream(source io.Reader, target io.Writer, size int64) (Artifact, error) {
	hash := sha256.New()
	ends := newEnds()
	var copied int64
	for copied < size {
		n, err := source.Read(c.buffer[:min(int64(len(c.buffer)), size-copied)])
		if n > 0 {
			chunk := c.buffer[:n]
			copied += int64(n)
			hash.Write(chunk)
			ends.Write(chunk)
			if _, err := target.Write(chunk); err != nil {
				return Artifact{}, fmt.Errorf("write: %w", err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return Artifact{}, &refusal{ReasonChanged}
		case err != nil:
			return Artifact{}, &refusal{ReasonUnreadable}
		}
	}
	return Artifact{Size: copied, MIME: ends.mime(), SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

func unchanged(source *os.File, before unix.Stat_t) error {
	after, err := stat(source)
	if err != nil {
		return err
	}
	if after.Size != before.Size || after.Mtim != before.Mtim || after.Ctim != before.Ctim {
		return &refusal{ReasonChanged}
	}
	return nil
}

func stat(f *os.File) (unix.Stat_t, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return s, &refusal{ReasonUnreadable}
	}
	return s, nil
}
