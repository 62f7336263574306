// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// FileName is the name under which the artifact of that index is kept in the folder given to Collect.
func FileName(index int) string { return fmt.Sprintf("%04d", index) }

// Options say how to collect.
type Options struct {
	Limits Limits
	// Inputs are names at the top of the folder that are our own links to uploads; a link of such a name is not
	// reported. A regular file of that name is the program's and is taken.
	Inputs map[string]bool
}

// Collect copies the regular files beneath root into store, as FileName(0), FileName(1) ... in the order of the
// report: top folder first, by name. An error means that we failed; what the program made impossible is a Skip.
func Collect(ctx context.Context, root *os.File, store *os.Root, options Options) (Report, error) {
	c := &collector{
		root: int(root.Fd()), store: store, options: options, used: make(map[string]bool),
		queue: []folder{{path: ".", depth: 0}}, buffer: make([]byte, copyBuffer),
	}
	for len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		if err := c.folder(ctx, next); err != nil {
			return c.report, err
		}
	}
	return c.report, nil
}

const copyBuffer = 128 << 10

type folder struct {
	path  string
	depth int
}

type collector struct {
	root    int
	store   *os.Root
	options Options
	report  Report
	used    map[string]bool
	queue   []folder
	folders int
	entries int
	total   int64
	// uncounted are the files beyond Limits.Count, untaken the bytes of those beyond Limits.Total.
	uncounted int
	untaken   int64
	buffer    []byte
}

// beyond leaves something out for a limit.
func (c *collector) beyond(reason Reason, path string, measured, value int64) {
	c.report.skip(reason, path)
	c.report.exceed(reason, measured, value)
}

// folder reads one folder: its files are taken, its folders queued.
func (c *collector) folder(ctx context.Context, f folder) error {
	if c.folders++; c.folders > c.options.Limits.Folders {
		c.beyond(ReasonFolders, f.path, int64(c.folders), int64(c.options.Limits.Folders))
		return nil
	}
	handle, err := c.open(f.path, unix.O_DIRECTORY)
	if err != nil {
		if f.path == "." {
			return fmt.Errorf("open the working folder: %w", err)
		}
		c.report.skip(reasonOf(err), f.path)
		return nil
	}
	defer handle.Close()
	names, complete := c.names(handle)
	if !complete {
		c.beyond(ReasonEntries, f.path, int64(c.entries+1), int64(c.options.Limits.Entries))
	}
	for _, name := range names {
		if ctx.Err() != nil {
			c.report.skip(ReasonStopped, path.Join(f.path, name))
			c.queue = nil
			return nil
		}
		if err := c.entry(f, int(handle.Fd()), name); err != nil {
			return err
		}
	}
	return nil
}

// names reads a folder's entries, as many as the limit still allows, in order.
func (c *collector) names(handle *os.File) (names []string, complete bool) {
	const batch = 1024
	for {
		left := c.options.Limits.Entries - c.entries
		if left <= 0 {
			slices.Sort(names)
			_, err := handle.Readdirnames(1)
			return names, errors.Is(err, io.EOF)
		}
		some, err := handle.Readdirnames(min(batch, left))
		names = append(names, some...)
		c.entries += len(some)
		if err != nil {
			slices.Sort(names)
			return names, errors.Is(err, io.EOF)
		}
	}
}

// entry judges one entry and takes it when it is a regular file within the limits.
func (c *collector) entry(f folder, dir int, name string) error {
	full := path.Join(f.path, name)
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		c.report.skip(reasonOf(err), full)
		return nil
	}
	kind := stat.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK && f.depth == 0 && c.options.Inputs[name] {
		return nil
	}
	switch {
	case strings.HasPrefix(name, ".") || name == "__pycache__":
		c.report.skip(ReasonHidden, full)
	case kind == unix.S_IFLNK:
		c.report.skip(ReasonLink, full)
	case kind == unix.S_IFDIR && f.depth >= c.options.Limits.Depth:
		c.beyond(ReasonDepth, full, int64(f.depth+1), int64(c.options.Limits.Depth))
	case kind == unix.S_IFDIR && len(c.queue) >= c.options.Limits.Folders:
		c.beyond(ReasonFolders, full, int64(len(c.queue)+1), int64(c.options.Limits.Folders))
	case kind == unix.S_IFDIR:
		c.queue = append(c.queue, folder{path: full, depth: f.depth + 1})
	case kind != unix.S_IFREG:
		c.report.skip(ReasonSpecial, full)
	case len(c.report.Artifacts) >= c.options.Limits.Count:
		c.uncounted++
		c.beyond(ReasonCount, full, int64(len(c.report.Artifacts)+c.uncounted), int64(c.options.Limits.Count))
	case stat.Size > c.options.Limits.Single:
		c.beyond(ReasonTooLarge, full, stat.Size, c.options.Limits.Single)
	case c.total+stat.Size > c.options.Limits.Total:
		c.untaken += stat.Size
		c.beyond(ReasonTotal, full, c.total+c.untaken, c.options.Limits.Total)
	default:
		return c.take(full)
	}
	return nil
}

// take copies one file into the store.
func (c *collector) take(full string) error {
	source, err := c.open(full, 0)
	if err != nil {
		c.report.skip(reasonOf(err), full)
		return nil
	}
	defer source.Close()
	copied, err := c.copy(source)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		c.report.skip(refused.reason, full)
		return nil
	case err != nil:
		return fmt.Errorf("store artifact %q: %w", SafePath(full), err)
	}
	copied.Name = c.unique(SafePath(full))
	c.report.Artifacts = append(c.report.Artifacts, copied)
	c.total += copied.Size
	return nil
}

func (c *collector) open(name string, flags uint64) (*os.File, error) {
	const always = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_NOCTTY
	how := unix.OpenHow{
		Flags:   always | flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	for attempt := 0; ; attempt++ {
		fd, err := unix.Openat2(c.root, name, &how)
		const attempts = 8
		if (errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)) && attempt < attempts {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), "artifact"), nil
	}
}

func reasonOf(err error) Reason {
	switch {
	case errors.Is(err, unix.ELOOP):
		return ReasonLink
	case errors.Is(err, unix.EXDEV):
		return ReasonMount
	case errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return ReasonSpecial
	case errors.Is(err, unix.ENAMETOOLONG):
		return ReasonDepth
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EAGAIN):
		return ReasonChanged
	default:
		return ReasonUnreadable
	}
}
