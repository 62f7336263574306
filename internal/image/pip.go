// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// distPackages is where Debian's Python looks for installed packages.
const distPackages = "usr/lib/python3/dist-packages"

// Python unpacks the wheels of the lock file with the host's pip. No code of the
// packages runs: only wheels are taken, and nothing is compiled here.
func (hostSteps) Python(ctx context.Context, l *loaded, root string) error {
	suite, _ := suiteNamed(l.Base.Suite)
	arch, _ := architectureOf(runtime.GOARCH)
	tmp := root + "-tmp"
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	lock := filepath.Join(tmp, "requirements.lock")
	if err := os.WriteFile(lock, l.lock, 0o600); err != nil {
		return err
	}
	target := filepath.Join(root, distPackages)
	args := []string{
		"sh", "-ec", `umask 022; mount -t proc proc /proc; exec "$@"`, "sh",
		"python3", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar=off",
		"--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile",
		// Older pips judge a package's Requires-Python by their own interpreter; the hashes say what fits the image's.
		"--ignore-requires-python",
		"--python-version=" + suite.Python, "--implementation=cp",
		"--abi=cp" + strings.ReplaceAll(suite.Python, ".", ""), "--abi=abi3", "--abi=none",
	}
	for _, platform := range wheelPlatforms(suite, arch) {
		args = append(args, "--platform="+platform)
	}
	args = append(args, "--target="+target, "--requirement="+lock)
	cmd := command{name: "pip", args: args, env: []string{"TMPDIR=" + tmp}, dir: tmp}
	if _, err := cmd.run(ctx); err != nil {
		return err
	}
	if err := arrangePackages(root, l.Python.Prune); err != nil {
		return err
	}
	return secure(ctx, root)
}

// arrangePackages moves what pip put beside the packages to where Debian has it,
// mends the programs' first lines, and removes the folders named in prune.
func arrangePackages(dir string, prune []string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := moveScripts(root); err != nil {
		return err
	}
	// Data files of wheels belong below sys.prefix, which is /usr.
	for _, name := range []string{"share", "etc", "include"} {
		err := root.Rename(distPackages+"/"+name, "usr/"+name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := root.RemoveAll("usr/share/man"); err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), distPackages, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains(prune, entry.Name()) && name != distPackages {
			if err := root.RemoveAll(name); err != nil {
				return err
			}
			return fs.SkipDir
		}
		return nil
	})
}

// reHostProgram matches programs whose names end in the host's Python version.
var reHostProgram = regexp.MustCompile(`\D3\.\d+$`)

// moveScripts moves the programs to /usr/local/bin. pip wrote the path of the
// host's Python into them.
func moveScripts(root *os.Root) error {
	const from, to = distPackages + "/bin", "usr/local/bin"
	entries, err := fs.ReadDir(root.FS(), from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || reHostProgram.MatchString(entry.Name()) {
			continue
		}
		content, err := root.ReadFile(path.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		if err := writeFile(root, path.Join(to, entry.Name()), mendShebang(content), 0o755); err != nil {
			return err
		}
	}
	return root.RemoveAll(from)
}

// mendShebang makes a Python program start with the image's Python. pip writes a
// two-line form when the path of its own Python is long or has spaces.
func mendShebang(content []byte) []byte {
	const shebang = "#!/usr/bin/python3\n"
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if bytes.HasPrefix(first, []byte("#!/bin/sh")) && bytes.HasPrefix(rest, []byte("'''exec'")) {
		if _, after, ok := bytes.Cut(rest, []byte("\n' '''\n")); ok {
			return append([]byte(shebang), after...)
		}
	}
	if bytes.HasPrefix(first, []byte("#!")) && bytes.Contains(first, []byte("python")) {
		return append([]byte(shebang), rest...)
	}
	return content
}

var reRequirement = regexp.MustCompile(`(?m)^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)`)

// parseLock lists the packages of a lock file.
func parseLock(lock []byte) (packages []Package) {
	for _, match := range reRequirement.FindAllSubmatch(lock, -1) {
		packages = append(packages, Package{Name: string(match[1]), Version: string(match[2])})
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return packages
}

// writeFile makes a file anew, never writing into one that may be linked to a
// layer: what is there is unlinked first. Missing folders are made.
func writeFile(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	if err := makeFolder(root, path.Dir(name)); err != nil {
		return err
	}
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make /%s: %w", name, err)
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Close())
	if err != nil {
		return err
	}
	return root.Chmod(name, mode)
}

// makeFolder makes a folder and its parents, of mode 0755 whatever the umask.
func makeFolder(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if _, err := root.Stat(name); err == nil {
		return nil
	}
	if err := makeFolder(root, path.Dir(name)); err != nil {
		return err
	}
	if err := root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}
