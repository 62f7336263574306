// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// digestPrefix begins every digest.
const digestPrefix = "sha256:"

// treeSum describes a tree.
type treeSum struct {
	digest string // set by digestTree only
	size   int64  // bytes of regular files
	files  int    // entries of any type but the root
}

// measureTree counts the entries and bytes below root.
func measureTree(ctx context.Context, root string) (treeSum, error) {
	var sum treeSum
	err := walk(ctx, root, func(_, _ string, info fs.FileInfo) error {
		sum.add(info)
		return nil
	})
	return sum, err
}

func (s *treeSum) add(info fs.FileInfo) {
	s.files++
	if info.Mode().IsRegular() {
		s.size += info.Size()
	}
}

// digestTree also hashes the tree: for each entry in the order of paths its path,
// type, mode and content or target. Times do not count.
func digestTree(ctx context.Context, root string) (treeSum, error) {
	var sum treeSum
	all := sha256.New()
	err := walk(ctx, root, func(path, rel string, info fs.FileInfo) error {
		sum.add(info)
		fmt.Fprintf(all, "%q %v\n", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			return hashFile(all, path)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			fmt.Fprintf(all, "%q\n", target)
			return err
		}
		return nil
	})
	sum.digest = digestPrefix + hex.EncodeToString(all.Sum(nil))
	return sum, err
}

func hashFile(all hash.Hash, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	one := sha256.New()
	if _, err := io.Copy(one, file); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	all.Write(one.Sum(nil))
	return nil
}

// walk calls visit for everything below root but root itself, in the order of
// paths, without following links.
func walk(ctx context.Context, root string, visit func(path, rel string, info fs.FileInfo) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return visit(path, rel, info)
	})
}

// linkTree adds the tree from to the tree to: folders and links are made anew,
// regular files are hard-linked and so must never be written to afterwards.
// It fails when anything but a folder is in both.
func linkTree(ctx context.Context, from, to string) error {
	return walk(ctx, from, func(path, rel string, info fs.FileInfo) error {
		target := filepath.Join(to, rel)
		switch {
		case info.IsDir():
			return linkFolder(target, info)
		case info.Mode().IsRegular():
			return conflict(rel, os.Link(path, target))
		case info.Mode()&fs.ModeSymlink != 0:
			content, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return conflict(rel, os.Symlink(content, target))
		}
		return fmt.Errorf("%s is a %v: layers hold folders, files and links", rel, info.Mode().Type())
	})
}

// linkFolder makes a folder with the mode of info, or accepts the one that is there.
func linkFolder(target string, info fs.FileInfo) error {
	err := os.Mkdir(target, 0o700)
	if errors.Is(err, fs.ErrExist) {
		there, err := os.Lstat(target)
		if err == nil && !there.IsDir() {
			err = fmt.Errorf("%s is a folder in one layer and none in another", target)
		}
		return err
	}
	if err != nil {
		return err
	}
	return os.Chmod(target, info.Mode()&(fs.ModePerm|fs.ModeSticky))
}

func conflict(rel string, err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("/%s is both in a Debian package and in a Python package: remove one of the two from the definition", rel)
	}
	return err
}

// secure makes every entry of a new tree fit to be shared by sandboxes: owned by
// root, readable by all, writable by the owner alone, no set-id bits, no file
// capabilities, and nothing but folders, files and links.
func secure(ctx context.Context, root string) error {
	return walk(ctx, root, func(path, rel string, info fs.FileInfo) error {
		mode := info.Mode()
		if mode.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
			return os.Remove(path)
		}
		if !ownedByRoot(info) {
			if err := os.Lchown(path, 0, 0); err != nil {
				return err
			}
		}
		if mode&fs.ModeSymlink != 0 {
			return nil
		}
		if mode.IsRegular() {
			if err := dropCapabilities(path); err != nil {
				return err
			}
		}
		if wanted := safeMode(rel, mode); wanted != mode&^fs.ModeType {
			return os.Chmod(path, wanted)
		}
		return nil
	})
}

// safeMode is the mode that an entry has in an image.
func safeMode(rel string, mode fs.FileMode) fs.FileMode {
	if mode.IsDir() {
		if rel == "tmp" || rel == "var/tmp" {
			return fs.ModeSticky | 0o777
		}
		return mode.Perm()&^0o022 | 0o755
	}
	wanted := mode.Perm()&^0o022 | 0o644
	if mode&0o111 != 0 {
		wanted |= 0o111
	}
	return wanted
}

// checkSecure fails at the first entry that secure would change: the last look
// at an image before it is published.
func checkSecure(ctx context.Context, root string) error {
	return walk(ctx, root, func(path, rel string, info fs.FileInfo) error {
		mode := info.Mode()
		switch {
		case mode.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0:
			return fmt.Errorf("/%s is a %v", rel, mode.Type())
		case !ownedByRoot(info):
			return fmt.Errorf("/%s does not belong to root", rel)
		case mode&fs.ModeSymlink != 0:
			return nil
		case safeMode(rel, mode) != mode&^fs.ModeType:
			return fmt.Errorf("/%s has mode %v, not %v", rel, mode, safeMode(rel, mode))
		case mode.IsRegular() && hasCapabilities(path):
			return fmt.Errorf("/%s has file capabilities", rel)
		}
		return nil
	})
}
