// SPDX-License-Identifier: Apache-2.0

package interpreter_test

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"glovebox/internal/interpreter"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"python", "Python", "py", "python3"} {
		if language, ok := interpreter.Lookup(name); !ok || language.Name != "python" {
			t.Errorf("Lookup(%q) = %v, %v", name, language, ok)
		}
	}
	if _, ok := interpreter.Lookup("cobol"); ok {
		t.Error("an unknown language was found")
	}
}

func TestFilesHoldWhatArgsStart(t *testing.T) {
	t.Parallel()
	for _, language := range interpreter.Languages() {
		program := strings.TrimPrefix(language.Args[len(language.Args)-1], interpreter.Root+"/")
		if _, err := fs.Stat(interpreter.Files(), program); err != nil {
			t.Errorf("%s: %v", language.Name, err)
		}
	}
}

func TestFilesAreLicensedAndShort(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(interpreter.Files(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(interpreter.Files(), path)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(content, []byte("# SPDX-License-Identifier: Apache-2.0\n")) {
			t.Errorf("%s does not begin with the licence", path)
		}
		if lines := bytes.Count(content, []byte("\n")); lines > 500 {
			t.Errorf("%s has %d lines", path, lines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDigestIsStable(t *testing.T) {
	t.Parallel()
	if a, b := interpreter.Digest(), interpreter.Digest(); a != b || len(a) != 64 {
		t.Errorf("Digest() = %q, then %q", a, b)
	}
}
