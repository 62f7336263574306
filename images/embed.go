// SPDX-License-Identifier: Apache-2.0

// Package images holds the image definitions that come with the program.
//
// A definition is a folder with an image.yaml and the files it names. Package
// internal/image builds it; docs/images.md describes the format.
package images

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// The pattern all: is needed for files whose names begin with a dot or underscore.
//
//go:embed all:python
var definitions embed.FS

// Names lists the built-in definitions in alphabetical order.
func Names() []string {
	entries, err := fs.ReadDir(definitions, ".")
	if err != nil {
		panic("images: the embedded folder cannot be read: " + err.Error())
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// Definition returns the folder of a built-in definition. The error for an
// unknown name lists the known ones and wraps fs.ErrNotExist.
func Definition(name string) (fs.FS, error) {
	if slices.Contains(Names(), name) {
		return fs.Sub(definitions, name)
	}
	return nil, fmt.Errorf("no built-in image is named %q (built-in: %s): %w",
		name, strings.Join(Names(), ", "), fs.ErrNotExist)
}
