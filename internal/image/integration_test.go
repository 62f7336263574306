// SPDX-License-Identifier: Apache-2.0

//go:build integration

package image_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"glovebox/internal/image"
)

// TestRealBuild builds a small image with the host's tools. It needs Linux, root,
// mmdebstrap, pip, a mirror and an index, and about a minute.
func TestRealBuild(t *testing.T) {
	store, err := image.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder := fstest.MapFS{
		image.DefinitionFile: {Data: []byte("name: tiny\nbase: {suite: trixie}\napt: [bash, python3]\nlanguages: [python, bash]\ncheck: check.py\n" +
			"files: [{from: hello, to: /usr/local/bin/hello, executable: true}]\n")},
		"hello": {Data: []byte("#!/bin/sh\necho hello\n")},
		"check.py": {Data: []byte(`
import json, os, socket, subprocess, sys
assert os.getuid() == 1000 and os.getpid() == 1, (os.getuid(), os.getpid())
assert subprocess.check_output(["hello"]) == b"hello\n"
assert "CapBnd:\t0000000000000000" in open("/proc/self/status").read()
assert socket.gethostname() is not None and os.listdir("/sys") == []
assert [name for _, name in socket.if_nameindex()] == ["lo"]
for path in "/usr/x", "/home/user/x", "/etc/passwd":
    try:
        open(path, "w")
    except OSError:
        continue
    sys.exit(path + " can be written")
sys.path.insert(0, "/usr/lib/glovebox/python")
import main as program
assert program.answer == 42 and os.path.exists(program.__cached__)
assert os.path.exists(json.__cached__), "no byte code"
`)},
	}
	built, err := store.Build(t.Context(), folder, image.BuildOptions{
		Progress: t.Output(),
		Programs: fstest.MapFS{"python/main.py": {Data: []byte("answer = 42\n")}},
	})
	switch image.KindOf(err) {
	case image.KindTool, image.KindPrivilege, image.KindNetwork, image.KindDisk:
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if built.PythonVersion == "" || len(built.Languages) != 2 || len(built.Packages.Apt) < 20 {
		t.Errorf("manifest %+v", built.Manifest)
	}
	for _, name := range []string{"etc/shadow", "etc/apt", "var/lib/apt", "usr/share/man"} {
		if _, err := os.Lstat(filepath.Join(built.Rootfs, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
