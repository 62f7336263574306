// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// nodeModules is where the packages of node.packages are in an image. It is no folder that Node looks into by itself: our
// own programs name it.
const nodeModules = "usr/share/glovebox/node_modules"

// npmLock is what is read of a package-lock.json.
type npmLock struct {
	Version  int                   `json:"lockfileVersion"`
	Packages map[string]npmPackage `json:"packages"`
}

type npmPackage struct {
	Name         string            `json:"name,omitempty"`
	Version      string            `json:"version,omitempty"`
	Integrity    string            `json:"integrity,omitempty"`
	Resolved     string            `json:"resolved,omitempty"`
	Link         bool              `json:"link,omitempty"`
	Dependencies map[string]string `json:"dependencies,omitempty"`
}

// parseNPMLock reads a lock file and refuses one that does not pin all it names.
func parseNPMLock(content []byte) (npmLock, error) {
	var lock npmLock
	if err := json.Unmarshal(content, &lock); err != nil {
		return lock, fmt.Errorf("node.packages is not a package-lock.json: %w", err)
	}
	if lock.Version < 2 || len(lock.Packages[""].Dependencies) == 0 {
		return lock, errors.New("node.packages: a package-lock.json of version 2 or 3 with dependencies is needed")
	}
	for name, pkg := range lock.Packages {
		if name != "" && (pkg.Link || !strings.HasPrefix(pkg.Integrity, "sha512-")) {
			return lock, fmt.Errorf("node.packages: %s has no sha512 integrity", name)
		}
		if pkg.Resolved != "" {
			return lock, fmt.Errorf("node.packages: %s names an address: make the lock with --omit-lockfile-registry-resolved", name)
		}
	}
	return lock, nil
}

// list returns the packages for the manifest.
func (l npmLock) list() []Package {
	list := make([]Package, 0, len(l.Packages))
	for name, pkg := range l.Packages {
		if name != "" {
			list = append(list, Package{Name: name[strings.LastIndex(name, "node_modules/")+len("node_modules/"):], Version: pkg.Version})
		}
	}
	slices.SortFunc(list, func(a, b Package) int { return strings.Compare(a.Name+" "+a.Version, b.Name+" "+b.Version) })
	return list
}

// Node unpacks the packages of the lock file with the host's npm, which checks them against their hashes. No code of the
// packages runs.
func (hostSteps) Node(ctx context.Context, l *loaded, root string) error {
	tmp := root + "-tmp"
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	lock, err := parseNPMLock(l.npmLock)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(lock.Packages[""])
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"package.json": manifest, "package-lock.json": l.npmLock} {
		if err := os.WriteFile(filepath.Join(tmp, name), content, 0o600); err != nil {
			return err
		}
	}
	args := []string{
		"sh", "-ec", `umask 022; mount -t proc proc /proc; exec "$@"`, "sh",
		"npm", "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--no-bin-links", "--no-update-notifier",
		"--cache=" + filepath.Join(tmp, "cache"),
	}
	cmd := command{name: "npm", args: args, env: []string{"TMPDIR=" + tmp}, dir: tmp}
	if _, err := cmd.run(ctx); err != nil {
		return err
	}
	target := filepath.Join(root, nodeModules)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tmp, "node_modules"), target); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(target, ".package-lock.json")); err != nil {
		return err
	}
	return secure(ctx, root)
}
