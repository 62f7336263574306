// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"glovebox/internal/sandbox"
)

// The limits of watching a folder. It is looked at, not told of: the kernel's own watches are counted for the whole host,
// so that a box has none.
const (
	WatchInterval = time.Second
	MaxWatched    = 2000
	MaxWatches    = 4 // of one sandbox at once
)

// Change is one thing that happened to a file.
type Change struct {
	// Kind is created, changed or removed.
	Kind string `json:"kind"`
	Path string `json:"path"`
	Size int64  `json:"size,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
}

// Watch tells the changes beneath a folder until ctx or the sandbox ends; begin is called when it has been seen first. What
// comes and goes between two looks is not seen. A watch is no use of the sandbox: its idle lease goes on.
func (f *Files) Watch(ctx context.Context, dir string, begin func(), tell func(Change) error) error {
	cleaned, err := cleanPath(dir)
	if err != nil {
		return err
	}
	h, err := f.engine.lookUp(f.tenant, f.id)
	if err != nil {
		return err
	}
	if err := h.beginWatch(); err != nil {
		return err
	}
	defer h.endWatch()
	ctx, leave := h.join(ctx)
	defer leave()
	files := h.box.Files()
	before, err := look(ctx, files, cleaned)
	if err != nil {
		return h.explain(err)
	}
	begin()
	ticker := time.NewTicker(WatchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return h.explain(context.Cause(ctx))
		}
		now, err := look(ctx, files, cleaned)
		if err != nil {
			return h.explain(err)
		}
		for _, change := range differences(before, now) {
			if err := tell(change); err != nil {
				return err
			}
		}
		before = now
	}
}

func look(ctx context.Context, files sandbox.Files, dir string) (map[string]sandbox.FileInfo, error) {
	members, err := walk(ctx, files, dir, MaxWatched)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]sandbox.FileInfo, len(members))
	for _, m := range members {
		seen[m.path] = m.info
	}
	return seen, nil
}

func differences(before, now map[string]sandbox.FileInfo) (changes []Change) {
	for _, path := range slices.Sorted(maps.Keys(now)) {
		info := now[path]
		change := Change{Path: path, Size: info.Size, Dir: info.Mode.IsDir()}
		old, known := before[path]
		switch {
		case !known:
			change.Kind = "created"
		case !info.Mode.IsDir() && (old.ModTime != info.ModTime || old.Size != info.Size || old.Mode != info.Mode):
			change.Kind = "changed"
		default:
			continue
		}
		changes = append(changes, change)
	}
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if _, still := now[path]; !still {
			changes = append(changes, Change{Kind: "removed", Path: path, Dir: before[path].Mode.IsDir()})
		}
	}
	return changes
}

func (h *held) beginWatch() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches >= MaxWatches {
		return &Problem{Code: CodeOverloaded, Text: "this sandbox is watched already as often as it may be: end one of the watches"}
	}
	h.watches++
	return nil
}

func (h *held) endWatch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watches--
}
