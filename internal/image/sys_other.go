// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package image

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
)

// canBuild tells whether this system can build images at all.
const canBuild = false

func tryLock(*os.File) (bool, error) { return true, nil }

func lockFile(*os.File) error { return nil }

func freeBytes(string) (uint64, error) { return math.MaxUint64, nil }

func syncFilesystem(string) error { return nil }

func isolate(*exec.Cmd, bool) {}

func ownedByRoot(fs.FileInfo) bool { return false }

func hasCapabilities(string) bool { return false }

func dropCapabilities(string) error { return errors.ErrUnsupported }
