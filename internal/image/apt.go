// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// maxSourcesBytes bounds each file of the host's apt configuration.
const maxSourcesBytes = 1 << 20

// Base unpacks the Debian packages with mmdebstrap and cleans the tree.
func (hostSteps) Base(ctx context.Context, l *loaded, root string) error {
	args := []string{
		"sh", "-ec", `umask 022; mount -t proc proc /proc; exec "$@"`, "sh",
		"mmdebstrap", "--mode=root", "--format=directory", "--variant=essential",
		"--include=" + strings.Join(append(sorted(l.Apt), sorted(l.Fonts.Apt)...), ","),
		`--aptopt=Acquire::Languages "none"`,
	}
	for _, option := range hostAptOptions(ctx) {
		args = append(args, "--aptopt="+option)
	}
	for _, path := range []string{"doc/*", "man/*", "info/*", "locale/*", "lintian/*", "bug/*", "zoneinfo/right/*"} {
		args = append(args, "--dpkgopt=path-exclude=/usr/share/"+path)
	}
	args = append(args, "--dpkgopt=path-include=/usr/share/doc/*/copyright", l.Base.Suite, root)
	args = append(args, hostSources(os.DirFS("/etc"), l.Base.Suite)...)

	// Beside the layer, so that it is swept with it.
	tmp := root + "-tmp"
	if err := os.Mkdir(tmp, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	cmd := command{name: "mmdebstrap", args: args, env: []string{"TMPDIR=" + tmp, "DEBIAN_FRONTEND=noninteractive"}, dir: tmp}
	if _, err := cmd.run(ctx); err != nil {
		return err
	}
	if err := cleanBase(root); err != nil {
		return err
	}
	return secure(ctx, root)
}

// cleanBase removes what only an installation needs, and everything about this
// host. Of dpkg's records the list of packages stays, for scanners.
func cleanBase(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{"etc/apt", "var/lib/apt", "var/lib/systemd", "usr/share/man", "usr/share/info", "boot", "media", "mnt", "srv", "opt"} {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	for _, name := range []string{"dev", "run", "tmp", "proc", "sys", "var/cache", "var/log", "var/tmp", "var/backups"} {
		if err := empty(root, name); err != nil {
			return err
		}
	}
	records, err := fs.ReadDir(root.FS(), "var/lib/dpkg")
	if err != nil {
		return err
	}
	for _, record := range records {
		if record.Name() != "status" {
			if err := root.RemoveAll("var/lib/dpkg/" + record.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// empty deletes everything in the folder name, which may be missing.
func empty(root *os.Root, name string) error {
	entries, err := fs.ReadDir(root.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		err = errors.Join(err, root.RemoveAll(name+"/"+entry.Name()))
	}
	return err
}

// hostAptOptions returns the host's settings about how to reach a mirror.
func hostAptOptions(ctx context.Context) []string {
	out, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return nil // a host without apt's settings has none to take over
	}
	return aptOptions(string(out))
}

// aptOptions picks from the output of apt-config what concerns the way to a
// mirror. Settings that would weaken the checks of signatures are not among them.
func aptOptions(dump string) (options []string) {
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ";")
		for _, prefix := range []string{
			"Acquire::http::", "Acquire::https::", "Acquire::Retries ",
			"Acquire::Check-Valid-Until ", "Acquire::Check-Date ", "Acquire::ForceIPv",
		} {
			if strings.HasPrefix(line, prefix) && !strings.HasSuffix(line, `""`) {
				options = append(options, line)
			}
		}
	}
	return options
}

// hostSources returns the lines of apt sources with the host's own mirrors, for
// the wanted suite. It is empty when the host (etc is its /etc) is not Debian or
// names no mirror of Debian's: mmdebstrap then takes its default.
func hostSources(etc fs.FS, wanted string) []string {
	release := fields(read(etc, "os-release"), "=")
	own := strings.Trim(release["VERSION_CODENAME"], `"`)
	if strings.Trim(release["ID"], `"`) != "debian" || own == "" {
		return nil
	}
	var lines []string
	add := func(uri, hostSuite string, components []string) {
		rest, ok := strings.CutPrefix(hostSuite, own)
		if !ok || !slices.Contains([]string{"", "-updates", "-security"}, rest) || !slices.Contains(components, "main") {
			return
		}
		if line := fmt.Sprintf("deb %s %s%s main", uri, wanted, rest); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	names := []string{"apt/sources.list"}
	more, _ := fs.ReadDir(etc, "apt/sources.list.d")
	for _, entry := range more {
		names = append(names, "apt/sources.list.d/"+entry.Name())
	}
	for _, name := range names {
		switch filepath.Ext(name) {
		case ".list":
			parseList(read(etc, name), add)
		case ".sources":
			parseSources(read(etc, name), add)
		}
	}
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasSuffix(line, " "+wanted+" main") }) {
		return nil // without the main archive the others are of no use
	}
	return lines
}

func read(etc fs.FS, name string) string {
	data, err := readFile(etc, name, maxSourcesBytes)
	if err != nil {
		return ""
	}
	return string(data)
}

// parseList reads apt's one-line format.
func parseList(text string, add func(uri, suite string, components []string)) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		options := ""
		if strings.HasPrefix(rest, "[") {
			options, rest, _ = strings.Cut(rest[1:], "]")
		}
		words := strings.Fields(rest)
		if kind != "deb" || len(words) < 3 || !debiansOwn(options) {
			continue
		}
		add(words[0], words[1], words[2:])
	}
}

// parseSources reads apt's deb822 format.
func parseSources(text string, add func(uri, suite string, components []string)) {
	for stanza := range strings.SplitSeq(text, "\n\n") {
		entry := fields(stanza, ":")
		signed, isSigned := entry["Signed-By"]
		if isSigned {
			signed = "signed-by=" + signed
		}
		if !slices.Contains(strings.Fields(entry["Types"]), "deb") || entry["Enabled"] == "no" || !debiansOwn(signed) {
			continue
		}
		for uri := range strings.FieldsSeq(entry["URIs"]) {
			for suite := range strings.FieldsSeq(entry["Suites"]) {
				add(uri, suite, strings.Fields(entry["Components"]))
			}
		}
	}
}

// debiansOwn tells whether a source is signed by Debian's archive keys, or names
// no key: other vendors' sources often have the suite's name too.
func debiansOwn(options string) bool {
	return !strings.Contains(strings.ToLower(options), "signed-by") || strings.Contains(options, "debian-archive")
}

// fields reads lines of key, separator and value. Comments are left out.
func fields(text, separator string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, separator)
		if ok && !strings.HasPrefix(key, "#") {
			found[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return found
}

// parseStatus lists the installed packages of dpkg's status file.
func parseStatus(text string) (packages []Package) {
	for stanza := range strings.SplitSeq(text, "\n\n") {
		entry := fields(stanza, ": ")
		if strings.HasSuffix(entry["Status"], " installed") {
			packages = append(packages, Package{Name: entry["Package"], Version: entry["Version"]})
		}
	}
	slices.SortFunc(packages, func(a, b Package) int { return strings.Compare(a.Name, b.Name) })
	return packages
}
