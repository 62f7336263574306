// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
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

var (
	// reIntegrity is one whole SHA-512. npm takes one that it cannot read for none, and then checks nothing.
	reIntegrity = regexp.MustCompile(`^sha512-[A-Za-z0-9+/]{86}==$`)
	// reNPMVersion is a version or a range of versions, and never an address, a file, a tag or another package's name.
	reNPMVersion = regexp.MustCompile(`^[~^]?[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*$`)
	reNPMPlace   = regexp.MustCompile(`^node_modules/(@[a-z0-9][\w.-]*/)?[a-zA-Z0-9][\w.-]*(/node_modules/(@[a-z0-9][\w.-]*/)?[a-zA-Z0-9][\w.-]*)*$`)
)

// parseNPMLock reads a lock file and refuses one that does not pin all it names.
func parseNPMLock(content []byte) (npmLock, error) {
	var lock npmLock
	if err := json.Unmarshal(content, &lock); err != nil {
		return lock, fmt.Errorf("node.packages is not a package-lock.json: %w", err)
	}
	if lock.Version < 2 || len(lock.Packages[""].Dependencies) == 0 {
		return lock, errors.New("node.packages: a package-lock.json of version 2 or 3 with dependencies is needed")
	}
	for name, wanted := range lock.Packages[""].Dependencies {
		if !reNPMVersion.MatchString(wanted) {
			return lock, fmt.Errorf("node.packages: %s is %.60q: npm checks the hash only of what comes from a registry, so give a version", name, wanted)
		}
	}
	for name, pkg := range lock.Packages {
		switch {
		case name == "":
			continue
		case !reNPMPlace.MatchString(name):
			return lock, fmt.Errorf("node.packages: %.80q is no place beneath node_modules", name)
		case pkg.Link || !reIntegrity.MatchString(pkg.Integrity):
			return lock, fmt.Errorf("node.packages: %s has no sha512 integrity", name)
		case !reNPMVersion.MatchString(pkg.Version):
			return lock, fmt.Errorf("node.packages: %s has the version %.60q: write a plain one", name, pkg.Version)
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
	if err := placeModules(filepath.Join(tmp, "node_modules"), root); err != nil {
		return err
	}
	return secure(ctx, root)
}

// placeModules moves what npm unpacked to its place beneath dir. A link there that leads out of dir is an error.
func placeModules(from, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := makeFolder(root, path.Dir(nodeModules)); err != nil {
		return err
	}
	if _, err := root.Lstat(nodeModules); err == nil {
		return fmt.Errorf("/%s is there already", nodeModules)
	}
	if err := os.Rename(from, filepath.Join(dir, nodeModules)); err != nil {
		return err
	}
	return root.RemoveAll(nodeModules + "/.package-lock.json")
}
