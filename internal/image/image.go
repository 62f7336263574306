// SPDX-License-Identifier: Apache-2.0

package image

import "time"

// Image is a finished image.
type Image struct {
	Rootfs string `json:"rootfs"` // absolute path of the root filesystem; treat it as read-only
	Manifest
}

// Manifest is what manifest.json beside a root filesystem says.
type Manifest struct {
	Version       int        `json:"version"` // of this format: manifestVersion
	Name          string     `json:"name"`
	Description   string     `json:"description,omitempty"`
	Digest        string     `json:"digest"` // "sha256:…" over paths, types, modes and contents, not over times
	Created       time.Time  `json:"created"`
	Size          int64      `json:"size"`  // bytes of all regular files
	Files         int        `json:"files"` // entries of any type
	Suite         string     `json:"suite"`
	Architecture  string     `json:"architecture"` // Debian's name
	PythonVersion string     `json:"python_version,omitempty"`
	Languages     []Language `json:"languages"`
	Preload       []string   `json:"preload"`
	Fonts         []string   `json:"fonts"` // families a chart can use, without aliases
	Packages      Packages   `json:"packages"`
	Layers        []string   `json:"layers"` // keys of the base, python and node steps
	Key           string     `json:"key"`    // of the finish step
}

// Language is a language that the image can run.
type Language struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Packages lists what is installed, in alphabetical order.
type Packages struct {
	Apt    []Package `json:"apt"`
	Python []Package `json:"python"`
	Node   []Package `json:"node,omitempty"`
}

// Package is an installed package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// manifestVersion is the only version of manifest.json that this program reads.
const manifestVersion = 1
