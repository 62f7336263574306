// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/internal/image"
)

const wholeHash = "sha512-2kkt/7niJ6MgEPxF0bYdQ6etZaA+fQvDcLKckhy1yIQOzaoKjBBjSj63/aLVjYE3qhRt5dvM+uUyfCg6UKCBbA=="

// TestLocksThatPinNothing: npm takes a hash that it cannot read for none, and has no hash of what comes from git or a folder.
func TestLocksThatPinNothing(t *testing.T) {
	t.Parallel()
	lock := func(wanted, place, version, integrity string) string {
		return `{"lockfileVersion": 3, "packages": {"": {"dependencies": {"a": "` + wanted + `"}}, "` + place +
			`": {"version": "` + version + `", "integrity": "` + integrity + `"}}}`
	}
	const place = "node_modules/a"
	for name, c := range map[string]struct {
		content string
		valid   bool
	}{
		"a pinned package":    {lock("1.2.3", place, "1.2.3", wholeHash), true},
		"a range":             {lock("^1.2.3", place, "1.2.3", wholeHash), true},
		"a scope inside":      {lock("1.2.3", "node_modules/a/node_modules/@b/c-d.e", "1.2.3-rc.1+build", wholeHash), true},
		"no hash":             {lock("1.2.3", place, "1.2.3", ""), false},
		"an empty hash":       {lock("1.2.3", place, "1.2.3", "sha512-"), false},
		"half a hash":         {lock("1.2.3", place, "1.2.3", wholeHash[:60]), false},
		"a weaker one beside": {lock("1.2.3", place, "1.2.3", "sha512-x sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="), false},
		"wanted from git":     {lock("git+https://example.org/a.git", place, "1.2.3", wholeHash), false},
		"wanted from a forge": {lock("github:someone/a", place, "1.2.3", wholeHash), false},
		"wanted from a file":  {lock("file:../../../etc", place, "1.2.3", wholeHash), false},
		"another name":        {lock("npm:b@1.2.3", place, "1.2.3", wholeHash), false},
		"a version from git":  {lock("1.2.3", place, "git+ssh://example.org/a.git", wholeHash), false},
		"a version elsewhere": {lock("1.2.3", place, "https://example.org/a.tgz", wholeHash), false},
		"out of its folder":   {lock("1.2.3", "node_modules/../../etc", "1.2.3", wholeHash), false},
		"beside its folder":   {lock("1.2.3", "../a", "1.2.3", wholeHash), false},
	} {
		if err := image.CheckNPMLock([]byte(c.content)); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestModulesStayInTheImage: a package of the base that laid a link where the modules go gets nothing written outside.
func TestModulesStayInTheImage(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]func(outside string) string{
		"absolute": func(outside string) string { return outside },
		"relative": func(string) string { return "../../../outside" },
	} {
		dir := t.TempDir()
		root, outside, from := filepath.Join(dir, "root"), filepath.Join(dir, "outside"), filepath.Join(dir, "node_modules")
		for _, folder := range []string{filepath.Join(root, "usr/share"), outside, from} {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(target(outside), filepath.Join(root, "usr/share/glovebox")); err != nil {
			t.Fatal(err)
		}
		err := image.PlaceModules(from, root)
		if entries, _ := os.ReadDir(outside); err == nil || len(entries) > 0 || strings.Contains(err.Error(), "already") {
			t.Errorf("%s: %v, %v", name, err, entries)
		}
	}
}
