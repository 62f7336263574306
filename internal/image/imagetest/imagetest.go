// SPDX-License-Identifier: Apache-2.0

// Package imagetest gives tests the image that this machine has.
package imagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"glovebox/internal/image"
)

// Rootfs returns the root folder of the image python and keeps the image from being replaced until the test ends.
// Without the image the test is skipped. GLOVEBOX_TEST_ROOTFS names another folder; Data says which data folder it is.
func Rootfs(tb testing.TB) string {
	tb.Helper()
	if dir := os.Getenv("GLOVEBOX_TEST_ROOTFS"); dir != "" { //nolint:forbidigo // tests choose their image by it
		return dir
	}
	found, err := show(dataFolder())
	if err != nil {
		tb.Skipf("the image python is not there (%v): build it with `make image`", err)
	}
	release, err := found.Pin()
	if err != nil {
		tb.Skipf("the image python cannot be used: %v", err)
	}
	tb.Cleanup(release)
	return found.Rootfs
}

// Data returns the data folder that tests use, with the image python in it: GLOVEBOX_TEST_DATA, else GLOVEBOX_DATA, else
// the program's own.
func Data() (string, error) {
	data := dataFolder()
	if _, err := show(data); err != nil {
		return "", fmt.Errorf("the image python is not in %s (%w): run `make image`, or set GLOVEBOX_TEST_DATA", data, err)
	}
	return data, nil
}

func show(data string) (image.Image, error) {
	// Open makes what is missing, which looking must not.
	if _, err := os.Stat(filepath.Join(data, "images")); err != nil {
		return image.Image{}, err
	}
	store, err := image.Open(data)
	if err != nil {
		return image.Image{}, err
	}
	return store.Show("python")
}

// dataFolder is where the program keeps its images by default; package config says so too.
func dataFolder() string {
	for _, name := range []string{"GLOVEBOX_TEST_DATA", "GLOVEBOX_DATA"} {
		if dir := os.Getenv(name); dir != "" { //nolint:forbidigo // tests choose their image by it
			return dir
		}
	}
	if os.Geteuid() == 0 {
		return "/var/lib/glovebox"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" { //nolint:forbidigo // tests choose their image by it
		return filepath.Join(dir, "glovebox")
	}
	return filepath.Join(os.Getenv("HOME"), ".local", "share", "glovebox") //nolint:forbidigo // tests choose their image by it
}
