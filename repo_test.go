// SPDX-License-Identifier: Apache-2.0

// Package glovebox_test holds the rules of this repository that no compiler checks: headers, package comments, layers,
// documented dependencies, links that lead somewhere.
package glovebox_test

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "glovebox"

// maxDirectModules is the policy of docs/dependencies.md.
const maxDirectModules = 25

// files returns the slash-separated paths of the repository's files whose base name keep accepts; what is built or
// downloaded is left out.
func files(t *testing.T, keep func(name string) bool) []string {
	t.Helper()
	skip := []string{".git", "bin", "build", "dist", "demo-out", "node_modules"}
	var found []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skip, filepath.ToSlash(name)):
			return fs.SkipDir
		case entry.Type().IsRegular() && keep(entry.Name()):
			found = append(found, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("no file found: the test looks in the wrong place")
	}
	return found
}

func ending(suffixes ...string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(suffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) })
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEveryFileNamesItsLicence(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ending(".go", ".py", ".sh", ".bash", ".js", ".mjs", "Makefile", ".golangci.yml")) {
		// A probe begins with what must become of it.
		if strings.Contains(name, "testdata/") || strings.Contains(name, "/probes/") {
			continue
		}
		head, _, _ := strings.Cut(read(t, name), "\n\n")
		if !strings.Contains(head, "SPDX-License-Identifier: Apache-2.0") {
			t.Errorf("%s: no SPDX-License-Identifier in the first paragraph", name)
		}
	}
}

func TestEveryPackageHasAComment(t *testing.T) {
	t.Parallel()
	commented := make(map[string]bool)
	for _, name := range files(t, ending(".go")) {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Error(err)
			continue
		}
		folder := path.Dir(name)
		commented[folder] = commented[folder] || file.Doc != nil && !strings.HasPrefix(file.Doc.Text(), "SPDX")
	}
	for folder, ok := range commented {
		if !ok {
			t.Errorf("%s: the package has no comment; put one into doc.go", folder)
		}
	}
}

type pkg struct {
	ImportPath string
	Standard   bool
	Deps       []string
	Imports    []string
}

// packages asks the go command what each package of the module reaches.
func packages(t *testing.T) map[string]pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Deps,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := make(map[string]pkg)
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var p pkg
		if err := decoder.Decode(&p); err != nil {
			t.Fatal(err)
		}
		found[p.ImportPath] = p
	}
	return found
}

// below tells whether the package is the folder or beneath it.
func below(importPath, folder string) bool {
	return importPath == folder || strings.HasPrefix(importPath, folder+"/")
}

// TestLayers checks what is reached, through however many packages; the lint configuration checks what is named.
func TestLayers(t *testing.T) {
	t.Parallel()
	all := packages(t)
	rules := []struct {
		from     string
		never    []string
		because  string
		stdlibOK bool // false: never may hold any path; true: everything outside the standard library is forbidden
	}{
		{"internal/sandbox", nil, "everything may depend on the core contract, so it may depend on nothing", true},
		{"client", nil, "whoever imports the client gets nothing else with it", true},
		{"internal/backend", []string{"internal/engine", "internal/gateway", "internal/store", "internal/policy", "internal/daemon", "internal/cli"}, "a backend isolates, limits and kills: it knows no tenant, no HTTP, no store", false},
		{"internal/guest", []string{"internal/engine", "internal/gateway", "internal/daemon", "internal/backend", "internal/config", "internal/cli", "internal/image"}, "the guest is the same under every backend", false},
		{"cmd/guest", []string{"net/http", "crypto/tls", "os/user", "internal/guest/link", "internal/guest/embedded"}, "the guest must start in a millisecond or two, and stay small", false},
		{"internal/engine", []string{"internal/gateway", "internal/daemon", "internal/backend", "internal/guest", "internal/cli"}, "the engine knows the contract alone", false},
		{"internal/gateway", []string{"internal/backend", "internal/guest", "internal/daemon", "internal/cli"}, "the gateway speaks to the engine", false},
		{"internal/policy", []string{"internal/engine", "internal/backend", "net/http", "os/exec"}, "a decision is pure", false},
	}
	for _, rule := range rules {
		for name, p := range all {
			// The conformance suite is a test: it may use more than what it tests.
			if !below(name, module+"/"+rule.from) || below(name, module+"/internal/sandbox/sandboxtest") {
				continue
			}
			for _, dep := range p.Deps {
				if rule.stdlibOK && !all[dep].Standard {
					t.Errorf("%s reaches %s: %s", name, dep, rule.because)
				}
				for _, never := range rule.never {
					if below(dep, never) || below(dep, module+"/"+never) {
						t.Errorf("%s reaches %s: %s", name, dep, rule.because)
					}
				}
			}
		}
	}
}

func TestOnlyTheWiringImportsBackends(t *testing.T) {
	t.Parallel()
	const backends = module + "/internal/backend"
	for name, p := range packages(t) {
		if below(name, backends) || below(name, module+"/internal/daemon") {
			continue
		}
		for _, imported := range p.Imports {
			if below(imported, backends) {
				t.Errorf("%s imports %s: only internal/daemon holds the list of backends", name, imported)
			}
		}
	}
}

func TestMainIsOneCall(t *testing.T) {
	t.Parallel()
	const limit = 30
	if lines := strings.Count(read(t, "cmd/glovebox/main.go"), "\n"); lines > limit {
		t.Errorf("cmd/glovebox/main.go has %d lines, at most %d: commands belong to internal/cli", lines, limit)
	}
}

var requirement = regexp.MustCompile(`(?m)^(?:require)?\s+([a-z0-9.-]+\.[a-z]+/\S+) v\S+$`)

func TestEveryDirectModuleIsExplained(t *testing.T) {
	t.Parallel()
	explained := read(t, "docs/dependencies.md")
	required := read(t, "go.mod")
	direct := requirement.FindAllStringSubmatch(required, -1)
	if len(direct) > maxDirectModules {
		t.Errorf("%d direct modules, at most %d", len(direct), maxDirectModules)
	}
	for _, match := range direct {
		if !strings.Contains(explained, "`"+match[1]+"`") {
			t.Errorf("%s is not in docs/dependencies.md: say why it is needed, what it weighs and how to leave it", match[1])
		}
	}
	// And the other way round: what left go.mod leaves the page too.
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(explained, -1) {
		if !strings.Contains(required, match[1]+" v") {
			t.Errorf("docs/dependencies.md explains %s, which go.mod does not require", match[1])
		}
	}
}

var (
	link  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence = regexp.MustCompile("(?s)```.*?```")
)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ending(".md")) {
		if strings.Contains(name, "testdata/") {
			continue
		}
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(read(t, name), ""), -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.FromSlash(path.Join(path.Dir(name), target))); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, match[1])
			}
		}
	}
}

var decision = regexp.MustCompile(`docs/decisions/(\d{4})|[Dd]ecision (\d{4})`)

func TestCitedDecisionsExist(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ending(".go", ".md", ".py", ".yaml")) {
		for _, match := range decision.FindAllStringSubmatch(read(t, name), -1) {
			number := match[1] + match[2]
			if found, _ := filepath.Glob("docs/decisions/" + number + "-*.md"); len(found) != 1 {
				t.Errorf("%s cites decision %s: %d such files in docs/decisions", name, number, len(found))
			}
		}
	}
}

// TestNoMirrorsInTheRepository: packages come from where the host's own apt and pip are set to.
func TestNoMirrorsInTheRepository(t *testing.T) {
	t.Parallel()
	hosts := regexp.MustCompile(`deb\.debian\.org|archive\.ubuntu\.com|pypi` + `\.org|files\.pythonhosted|registry\.npmjs|proxy\.golang`)
	for _, name := range files(t, ending(".go", ".py", ".sh", ".js", ".mjs", ".yaml", ".yml", ".md", "Makefile", ".lock", ".in", "package-lock.json")) {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
			continue
		}
		if found := hosts.FindString(read(t, name)); found != "" {
			t.Errorf("%s names %s", name, found)
		}
	}
}
