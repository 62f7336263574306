// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// DefinitionFile is the name of the file that makes a folder a definition.
const DefinitionFile = "image.yaml"

// Limits of a definition.
const (
	maxDefinitionBytes = 64 << 10 // image.yaml
	maxFileBytes       = 4 << 20  // each file that it names
	maxEntries         = 500      // each list
)

// Definition is what an image.yaml says. Unknown keys are errors.
type Definition struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Base        struct {
		Suite string `yaml:"suite"` // a Debian suite that this version knows
	} `yaml:"base"`
	Apt       []string `yaml:"apt"`
	Python    Python   `yaml:"python"`
	Node      Node     `yaml:"node"`
	Fonts     Fonts    `yaml:"fonts"`
	Languages []string `yaml:"languages"`
	Preload   []string `yaml:"preload"` // modules a warm interpreter imports
	Files     []File   `yaml:"files"`
	Check     string   `yaml:"check"` // a Python script of the folder; it must succeed in the finished image
}

// Python is the part of a definition that pip installs.
type Python struct {
	Requirements string   `yaml:"requirements"` // a lock file of the folder: every line pinned, with hashes
	Prune        []string `yaml:"prune"`        // names of package folders to leave out
}

// Node is the part of a definition that npm installs, for our own programs.
type Node struct {
	Packages string `yaml:"packages"` // a package-lock.json of the folder, without addresses
}

// Fonts is the part of a definition about fonts.
type Fonts struct {
	Apt      []string          `yaml:"apt"`
	Keep     []string          `yaml:"keep"`     // patterns of file names; empty keeps all
	Fallback []string          `yaml:"fallback"` // families tried for each missing glyph
	Aliases  map[string]string `yaml:"aliases"`  // other names for installed families
}

// File is a file of the definition's folder and its place in the image.
type File struct {
	From       string `yaml:"from"`
	To         string `yaml:"to"`
	Executable bool   `yaml:"executable"`
}

// ParseDefinition reads and checks an image.yaml. The error lists every fault.
func ParseDefinition(data []byte) (Definition, error) {
	var d Definition
	if len(data) > maxDefinitionBytes {
		return d, &Error{Kind: KindInvalid, Text: fmt.Sprintf("%s is larger than %d KiB", DefinitionFile, maxDefinitionBytes>>10)}
	}
	if err := decode(data, &d); err != nil {
		return Definition{}, &Error{Kind: KindInvalid, Text: DefinitionFile + " cannot be read", Err: err}
	}
	if err := d.validate(); err != nil {
		return Definition{}, &Error{Kind: KindInvalid, Text: fmt.Sprintf("%s of image %q", DefinitionFile, d.Name), Err: err}
	}
	return d, nil
}

// decode reads one strict YAML document. The library panics on some malformed
// input, which is the input's fault and so an error.
func decode(data []byte, d *Definition) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("malformed YAML: %v", fault)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := decoder.Decode(d); err != nil && !errors.Is(err, io.EOF) {
		return errors.New(yaml.FormatError(err, false, true))
	}
	if err := decoder.Decode(new(Definition)); !errors.Is(err, io.EOF) {
		return errors.New("it must hold one document")
	}
	return nil
}

// validate returns all faults joined, or nil.
func (d *Definition) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	if err := checkName(d.Name); err != nil {
		faults = append(faults, err)
	}
	if _, ok := suiteNamed(d.Base.Suite); !ok {
		fault("base.suite is %q; this version builds on: %s", d.Base.Suite, strings.Join(suiteNames(), ", "))
	}
	for _, name := range slices.Concat(d.Apt, d.Fonts.Apt) {
		if !reAptName.MatchString(name) {
			fault("%q is not the name of a Debian package", name)
		}
	}
	for _, language := range d.Languages {
		if !slices.Contains(knownLanguages(), language) {
			fault("languages: %q is not one of %s", language, strings.Join(knownLanguages(), ", "))
		}
	}
	for _, module := range d.Preload {
		if !reModule.MatchString(module) {
			fault("preload: %q is not the name of a Python module", module)
		}
	}
	for _, name := range d.Python.Prune {
		if name == "" || name != path.Base(path.Clean(name)) || name == "." || name == ".." {
			fault("python.prune: %q is not the name of a folder", name)
		}
	}
	if d.Python.Requirements != "" && !slices.Contains(d.Apt, "python3") {
		fault("python.requirements needs python3 in apt")
	}
	if d.Node.Packages != "" && !slices.Contains(d.Apt, "nodejs") {
		fault("node.packages needs nodejs in apt")
	}
	faults = append(faults, d.validateFiles()...)
	for field, n := range map[string]int{
		"apt": len(d.Apt), "fonts.apt": len(d.Fonts.Apt), "fonts.keep": len(d.Fonts.Keep),
		"fonts.fallback": len(d.Fonts.Fallback), "fonts.aliases": len(d.Fonts.Aliases), "files": len(d.Files), "preload": len(d.Preload),
	} {
		if n > maxEntries {
			fault("%s has %d entries; at most %d are allowed", field, n, maxEntries)
		}
	}
	return errors.Join(faults...)
}

func (d *Definition) validateFiles() (faults []error) {
	inside := func(field, name string) {
		if name != "" && !fs.ValidPath(name) {
			faults = append(faults, fmt.Errorf("%s: %q is not a path below the definition's folder", field, name))
		}
	}
	inside("python.requirements", d.Python.Requirements)
	inside("node.packages", d.Node.Packages)
	inside("check", d.Check)
	for _, file := range d.Files {
		if file.From == "" {
			faults = append(faults, errors.New("files: an entry has no from"))
		}
		inside("files.from", file.From)
		target := strings.TrimPrefix(file.To, "/")
		if target == file.To || target == "." || !fs.ValidPath(target) {
			faults = append(faults, fmt.Errorf("files.to: %q is not a clean absolute path", file.To))
		}
	}
	for _, pattern := range d.Fonts.Keep {
		if _, err := path.Match(pattern, ""); err != nil {
			faults = append(faults, fmt.Errorf("fonts.keep: %q is not a pattern", pattern))
		}
	}
	return faults
}

var (
	reName    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	reAptName = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	reModule  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
)

// checkName refuses what cannot be the name of an image. Names are file names
// in the store, so those that the store uses itself are refused too.
func checkName(name string) error {
	if !reName.MatchString(name) {
		return fmt.Errorf("%q is not a name for an image: use at most 63 of a-z, 0-9 and -, beginning with a letter", name)
	}
	if name == lockName || name == layersName || name == builtName || strings.HasPrefix(name, tmpPrefix) {
		return fmt.Errorf("%q is a name that the store needs for itself", name)
	}
	return nil
}

// knownLanguages are the languages that the program has an interpreter for.
func knownLanguages() []string { return []string{"python", "javascript", "typescript", "bash"} }

// loaded is a definition together with the bytes of the files it names.
type loaded struct {
	Definition
	lock    []byte            // of Python.Requirements; nil when there is none
	npmLock []byte            // of Node.Packages; nil when there is none
	check   []byte            // of Check; nil when there is none
	files   map[string][]byte // by File.From

	programs map[string][]byte // of BuildOptions.Programs, by path
}

// load reads the definition in folder, every file it names, and programs.
func load(folder, programs fs.FS) (*loaded, error) {
	data, err := readFile(folder, DefinitionFile, maxDefinitionBytes)
	if err != nil {
		return nil, &Error{Kind: KindInvalid, Text: "this folder is not an image definition", Err: err}
	}
	d, err := ParseDefinition(data)
	if err != nil {
		return nil, err
	}
	l := &loaded{Definition: d, files: make(map[string][]byte, len(d.Files))}
	read := func(name string) (content []byte) {
		if name != "" && err == nil {
			content, err = readFile(folder, name, maxFileBytes)
		}
		return content
	}
	l.lock, l.npmLock, l.check = read(d.Python.Requirements), read(d.Node.Packages), read(d.Check)
	for _, file := range d.Files {
		l.files[file.From] = read(file.From)
	}
	if err != nil {
		return nil, &Error{Kind: KindInvalid, Text: fmt.Sprintf("image %q names a file that cannot be used", d.Name), Err: err}
	}
	if l.npmLock != nil {
		if _, err := parseNPMLock(l.npmLock); err != nil {
			return nil, &Error{Kind: KindInvalid, Text: fmt.Sprintf("image %q cannot be built", d.Name), Err: err}
		}
	}
	if l.programs, err = readAll(programs); err != nil {
		return nil, &Error{Kind: KindInvalid, Text: "the programs for the image cannot be used", Err: err}
	}
	return l, nil
}

// readAll reads every file of tree, which may be nil.
func readAll(tree fs.FS) (map[string][]byte, error) {
	files := make(map[string][]byte)
	if tree == nil {
		return files, nil
	}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if len(files) == maxEntries {
			return fmt.Errorf("more than %d files", maxEntries)
		}
		files[name], err = readFile(tree, name, maxFileBytes)
		return err
	})
	return files, err
}

// readFile reads a file of at most limit bytes.
func readFile(folder fs.FS, name string, limit int64) ([]byte, error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d KiB", name, limit>>10)
	}
	return data, nil
}
