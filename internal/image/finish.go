// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	_ "embed" // for the scripts
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Scripts that the image's own Python runs.
var (
	//go:embed scripts/fontcache.py
	fontCacheScript string
	//go:embed scripts/compile.py
	compileScript string
)

// Places in an image that interpreters rely on; docs/images.md lists them.
const (
	matplotlibDir = "usr/share/glovebox/matplotlib" // MPLCONFIGDIR, read-only
	fontsFile     = "usr/share/glovebox/fonts.json" // fallback families
	fontsDir      = "usr/share/fonts"
	programsDir   = "usr/lib/glovebox" // BuildOptions.Programs
)

// Finish completes the root filesystem dir, checks it, and describes it.
func (hostSteps) Finish(ctx context.Context, l *loaded, dir string) (Manifest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, err
	}
	defer root.Close()
	if err := writeSystemFiles(root); err != nil {
		return Manifest{}, err
	}
	if err := keepFonts(root, l.Fonts.Keep); err != nil {
		return Manifest{}, err
	}
	if err := placeFiles(root, l); err != nil {
		return Manifest{}, err
	}
	if err := compileAll(ctx, root); err != nil {
		return Manifest{}, err
	}
	families, err := cacheFonts(ctx, root, l)
	if err != nil {
		return Manifest{}, err
	}
	if err := checkSecure(ctx, dir); err != nil {
		return Manifest{}, fmt.Errorf("the image is not safe to share: %w", err)
	}
	if l.check != nil {
		check := inside{name: "the image's own check", root: dir, user: userID, stdin: bytes.NewReader(l.check), args: []string{"python3", "-I", "-"}}
		if _, err := check.run(ctx); err != nil {
			return Manifest{}, err
		}
	}
	return describe(root, l, families)
}

// writeSystemFiles makes /etc say nothing about the host, and makes the mount points.
func writeSystemFiles(root *os.Root) error {
	for _, name := range []string{
		"etc/shadow", "etc/shadow-", "etc/gshadow", "etc/gshadow-", "etc/passwd-", "etc/group-",
		"etc/subuid", "etc/subuid-", "etc/subgid", "etc/subgid-", "etc/security/opasswd",
	} {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	files := map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\n" +
			"user:x:1000:1000:user:/home/user:/bin/bash\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
		"etc/group":       "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n",
		"etc/hostname":    "sandbox\n",
		"etc/hosts":       "127.0.0.1 localhost sandbox\n::1 localhost\n",
		"etc/resolv.conf": "",
		"etc/machine-id":  "",
	}
	for name, content := range files {
		if err := writeFile(root, name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"data", "home/user", "tmp", "proc", "dev", "run", "sys", "root", "var/tmp", programsDir, matplotlibDir} {
		if err := makeFolder(root, name); err != nil {
			return err
		}
	}
	for _, name := range []string{"tmp", "var/tmp"} {
		if err := root.Chmod(name, fs.ModeSticky|0o777); err != nil {
			return err
		}
	}
	if _, err := root.Stat("usr/bin/python3"); err != nil {
		return nil //nolint:nilerr // an image without Python needs no more
	}
	// Debian's mark that keeps pip from installing; packages go where the policy allows.
	marks, err := fs.Glob(root.FS(), "usr/lib/python3*/EXTERNALLY-MANAGED")
	for _, mark := range marks {
		err = errors.Join(err, root.Remove(mark))
	}
	if err != nil {
		return err
	}
	if err := root.RemoveAll("usr/bin/python"); err != nil {
		return err
	}
	return root.Symlink("python3", "usr/bin/python")
}

// keepFonts deletes the fonts whose names match none of the patterns, if there are any.
func keepFonts(root *os.Root, patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	err := fs.WalkDir(root.FS(), fontsDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		keep := slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, _ := path.Match(pattern, entry.Name())
			return ok
		})
		if keep {
			return nil
		}
		return root.Remove(name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// placeFiles copies the definition's files and the caller's programs.
func placeFiles(root *os.Root, l *loaded) error {
	for _, file := range l.Files {
		mode := fs.FileMode(0o644)
		if file.Executable {
			mode = 0o755
		}
		if err := writeFile(root, strings.TrimPrefix(file.To, "/"), l.files[file.From], mode); err != nil {
			return err
		}
	}
	for name, content := range l.programs {
		if err := writeFile(root, path.Join(programsDir, name), content, 0o644); err != nil {
			return err
		}
	}
	fallback, err := json.Marshal(map[string][]string{"fallback": l.Fonts.Fallback})
	if err != nil {
		return err
	}
	return writeFile(root, fontsFile, fallback, 0o644)
}

// compileAll byte-compiles the standard library, all packages and the programs. The result
// holds no time stamps: it stays valid on a read-only root and in a copy.
func compileAll(ctx context.Context, root *os.Root) error {
	if _, err := root.Stat("usr/bin/python3"); err != nil {
		return nil //nolint:nilerr // an image without Python has nothing to compile
	}
	folders, err := fs.Glob(root.FS(), "usr/lib/python3*")
	if err != nil {
		return err
	}
	// Only the standard library is imported: -S leaves out the packages' start-up files.
	args := []string{"python3", "-I", "-S", "-c", compileScript}
	for _, folder := range append(folders, programsDir) {
		args = append(args, "/"+folder)
	}
	_, err = inside{name: "byte-compile", root: root.Name(), writable: true, args: args}.run(ctx)
	return err
}

// fontCache is what scripts/fontcache.py prints.
type fontCache struct {
	Name     string   `json:"name"`
	Content  string   `json:"content"`
	Families []string `json:"families"`
}

// cacheFonts writes the font lists of fontconfig and matplotlib, where the image
// has them, and returns the families that matplotlib found.
func cacheFonts(ctx context.Context, root *os.Root, l *loaded) ([]string, error) {
	if _, err := root.Stat("usr/bin/fc-cache"); err == nil {
		if err := errors.Join(freezeFolders(root, fontsDir), freezeFolders(root, "usr/local/share/fonts")); err != nil {
			return nil, err
		}
		cmd := inside{name: "fc-cache", root: root.Name(), writable: true, args: []string{"fc-cache", "--system-only", "--force"}}
		if _, err := cmd.run(ctx); err != nil {
			return nil, err
		}
	}
	if _, err := root.Stat(distPackages + "/matplotlib"); err != nil {
		return nil, nil //nolint:nilerr // an image without matplotlib needs no list
	}
	input, err := json.Marshal(map[string]any{"aliases": l.Fonts.Aliases})
	if err != nil {
		return nil, err
	}
	out, err := inside{
		name: "matplotlib's font list", root: root.Name(), user: userID,
		stdin: bytes.NewReader(input), args: []string{"python3", "-I", "-c", fontCacheScript},
	}.run(ctx)
	if err != nil {
		return nil, err
	}
	var cache fontCache
	if err := json.Unmarshal(out, &cache); err != nil {
		return nil, fmt.Errorf("matplotlib's font list: %w", err)
	}
	if path.Base(cache.Name) != cache.Name || !strings.HasPrefix(cache.Name, "fontlist-") {
		return nil, fmt.Errorf("matplotlib's font list has the name %q", cache.Name)
	}
	if missing := missingFamilies(l.Fonts.Fallback, cache.Families); len(missing) > 0 {
		return nil, &Error{Kind: KindInvalid, Text: "fonts.fallback names families that the image has not: " + strings.Join(missing, ", ")}
	}
	return cache.Families, writeFile(root, path.Join(matplotlibDir, cache.Name), []byte(cache.Content), 0o644)
}

// freezeFolders gives the folders below name one fixed time: fontconfig writes it
// into its lists, which would otherwise differ from build to build.
func freezeFolders(root *os.Root, name string) error {
	fixed := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	err := fs.WalkDir(root.FS(), name, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return root.Chtimes(name, fixed, fixed)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func missingFamilies(wanted, have []string) (missing []string) {
	for _, family := range wanted {
		if !slices.Contains(have, family) {
			missing = append(missing, family)
		}
	}
	return missing
}

// describe fills in what the manifest says about the content of the image.
func describe(root *os.Root, l *loaded, families []string) (Manifest, error) {
	status, err := root.ReadFile("var/lib/dpkg/status")
	if err != nil {
		return Manifest{}, err
	}
	arch, _ := architectureOf(runtime.GOARCH)
	m := Manifest{
		Architecture: arch.Debian,
		Fonts:        families,
		Packages:     Packages{Apt: parseStatus(string(status)), Python: parseLock(l.lock)},
	}
	var transpiler string
	if l.npmLock != nil {
		lock, err := parseNPMLock(l.npmLock)
		if err != nil {
			return Manifest{}, err
		}
		m.Packages.Node = lock.list()
		transpiler = lock.Packages["node_modules/sucrase"].Version
	}
	suite, _ := suiteNamed(l.Base.Suite)
	versions := make(map[string]string, len(m.Packages.Apt))
	for _, pkg := range m.Packages.Apt {
		versions[pkg.Name] = upstream(pkg.Version)
	}
	m.PythonVersion = versions["python"+suite.Python]
	for _, name := range l.Languages {
		version := map[string]string{"python": m.PythonVersion, "javascript": versions["nodejs"], "typescript": transpiler, "bash": versions["bash"]}[name]
		if version == "" {
			return Manifest{}, &Error{Kind: KindInvalid, Text: fmt.Sprintf("languages has %q, but no package of the definition brings it", name)}
		}
		m.Languages = append(m.Languages, Language{Name: name, Version: version})
	}
	return m, nil
}

// upstream cuts Debian's parts off a version: "2:20.19.2+dfsg-1" is 20.19.2.
func upstream(version string) string {
	if _, after, ok := strings.Cut(version, ":"); ok {
		version = after
	}
	version, _, _ = strings.Cut(version, "-")
	version, _, _ = strings.Cut(version, "+")
	return version
}
