// SPDX-License-Identifier: Apache-2.0

package interpreter

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Root is the folder of an image that holds Files.
const Root = "/usr/lib/glovebox"

// Descriptor is where an interpreter finds its channel to the guest.
const Descriptor = 3

// Language says how code of one language is run.
type Language struct {
	// Name is what requests say.
	Name string
	// Aliases are other names that requests may say.
	Aliases []string
	// Args start the interpreter.
	Args []string
	// Extension is that of a file of the language, with its dot.
	Extension string
	// OtherExtensions are less common ones.
	OtherExtensions []string
	// Processes is the fewest processes and threads with which the interpreter starts; zero is no more than any sandbox has.
	Processes int64
	// Script is the name of a run's code when the request gives none.
	Script string
}

// Languages returns all languages, by name.
func Languages() []Language {
	const nodeThreads = 8 // the engine's own, before any code runs
	return []Language{
		{
			Name:    "bash",
			Aliases: []string{"sh", "shell"},
			// The driver, which starts the shell.
			Args:      []string{"/usr/bin/python3", "-I", "-B", "-X", "utf8", Root + "/bash/main.py"},
			Extension: ".sh", OtherExtensions: []string{".bash"},
			Script: "script.sh",
		},
		{
			Name:      "javascript",
			Aliases:   []string{"js", "node", "nodejs"},
			Args:      []string{"/usr/bin/node", Root + "/javascript/main.js"},
			Extension: ".js", OtherExtensions: []string{".mjs", ".cjs"},
			Script:    "script.js",
			Processes: nodeThreads,
		},
		{
			Name:    "python",
			Aliases: []string{"py", "python3"},
			// -I: no user site, no environment, and no folder of user code ahead of the library. -B: the root is
			// read-only. utf8: whatever the locale.
			Args:      []string{"/usr/bin/python3", "-I", "-B", "-X", "utf8", Root + "/python/main.py"},
			Extension: ".py",
			Script:    "script.py",
		},
		{
			Name:      "typescript",
			Aliases:   []string{"ts"},
			Args:      []string{"/usr/bin/node", Root + "/typescript/main.js"},
			Extension: ".ts", OtherExtensions: []string{".mts", ".cts"},
			Script:    "script.ts",
			Processes: nodeThreads,
		},
	}
}

// Zygote starts the process that warm sessions of Python are forked from.
func Zygote() []string {
	const start = "import sys; sys.path.insert(0, '" + Root + "/python'); from glovebox import zygote; del sys.path[0]; zygote.main()"
	return []string{"/usr/bin/python3", "-I", "-B", "-X", "utf8", "-c", start}
}

// OfFile finds the language of a file by its extension.
func OfFile(name string) (Language, bool) {
	extension := strings.ToLower(path.Ext(name))
	for _, language := range Languages() {
		if language.Extension == extension || slices.Contains(language.OtherExtensions, extension) {
			return language, true
		}
	}
	return Language{}, false
}

// Names returns the names of all languages.
func Names() []string {
	languages := Languages()
	names := make([]string, 0, len(languages))
	for _, language := range languages {
		names = append(names, language.Name)
	}
	return names
}

// Lookup finds a language by its name or an alias, in any case.
func Lookup(name string) (Language, bool) {
	name = strings.ToLower(name)
	for _, language := range Languages() {
		if language.Name == name || slices.Contains(language.Aliases, name) {
			return language, true
		}
	}
	return Language{}, false
}

//go:embed python/main.py python/glovebox/*.py python/glovebox/*/*.py
//go:embed javascript/main.js javascript/glovebox/*.js javascript/glovebox/*.mjs typescript/main.js
//go:embed bash/main.py bash/shell.bash
var files embed.FS

// Files returns the programs, to be copied to Root when an image is built.
func Files() fs.FS { return files }

// Digest identifies the content of Files: an image that was built with another digest is out of date.
func Digest() string {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(content))
		sum.Write(content)
		return nil
	})
	if err != nil {
		panic("interpreter: embedded files cannot be read: " + err.Error())
	}
	return hex.EncodeToString(sum.Sum(nil))
}
