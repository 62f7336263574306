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
	for name, want := range map[string]string{"JS": "javascript", "node": "javascript", "ts": "typescript", "sh": "bash"} {
		if language, ok := interpreter.Lookup(name); !ok || language.Name != want {
			t.Errorf("Lookup(%q) = %v, %v", name, language, ok)
		}
	}
}

func TestOfFile(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.py": "python", "a.b.JS": "javascript", "a.mjs": "javascript", "a.ts": "typescript", "a.sh": "bash", "a.txt": "", "py": "", "": "",
	} {
		if language, ok := interpreter.OfFile(name); ok != (want != "") || language.Name != want {
			t.Errorf("OfFile(%q) = %q, %v", name, language.Name, ok)
		}
	}
}

// TestLanguagesAreDistinct: no two languages share a name, an alias or an extension.
func TestLanguagesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, language := range interpreter.Languages() {
		words := append([]string{language.Name, language.Extension}, language.Aliases...)
		for _, word := range append(words, language.OtherExtensions...) {
			if other := seen[word]; other != "" {
				t.Errorf("%s stands for %s and %s", word, other, language.Name)
			}
			seen[word] = language.Name
		}
		if !strings.HasSuffix(language.Script, language.Extension) {
			t.Errorf("%s: the script %s does not end in %s", language.Name, language.Script, language.Extension)
		}
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
		if first, _, _ := strings.Cut(string(content), "\n"); !strings.HasSuffix(first, " SPDX-License-Identifier: Apache-2.0") {
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
