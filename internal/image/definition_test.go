// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"io/fs"
	"strings"
	"testing"

	"glovebox/images"
	"glovebox/internal/image"
)

func TestBuiltInDefinitionsParse(t *testing.T) {
	t.Parallel()
	for _, name := range images.Names() {
		folder, err := images.Definition(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := fs.ReadFile(folder, image.DefinitionFile)
		if err != nil {
			t.Fatal(err)
		}
		d, err := image.ParseDefinition(data)
		if err != nil {
			t.Fatal(err)
		}
		if d.Name != name {
			t.Errorf("folder %s defines image %s", name, d.Name)
		}
	}
}

func TestParseDefinitionFaults(t *testing.T) {
	t.Parallel()
	valid := "name: x\nbase: {suite: trixie}\n"
	many := strings.Repeat("a0, ", 501)
	for name, test := range map[string]struct {
		yaml  string
		texts []string
	}{
		"empty":           {"", []string{"name", "base.suite"}},
		"not YAML":        {"name: [", []string{"image.yaml cannot be read"}},
		"unknown key":     {valid + "pyton: {}\n", []string{"pyton"}},
		"unknown deep":    {valid + "fonts: {keeps: [a]}\n", []string{"keeps"}},
		"duplicate key":   {valid + "name: y\n", []string{"name"}},
		"wrong type":      {valid + "apt: yes\n", []string{"image.yaml cannot be read"}},
		"two faults":      {"name: X\nbase: {suite: woody}\n", []string{`"X"`, `"woody"`, "trixie"}},
		"apt option":      {valid + "apt: [--allow-unauthenticated]\n", []string{"--allow-unauthenticated"}},
		"apt list":        {valid + "apt: ['a,b']\n", []string{`"a,b"`}},
		"language":        {valid + "languages: [cobol]\n", []string{"cobol", "javascript"}},
		"module":          {valid + "preload: ['os; evil']\n", []string{"os; evil"}},
		"escape from":     {valid + "files: [{from: ../x, to: /x}]\n", []string{"../x"}},
		"no from":         {valid + "files: [{to: /x}]\n", []string{"no from"}},
		"relative to":     {valid + "files: [{from: x, to: x}]\n", []string{"absolute"}},
		"escape to":       {valid + "files: [{from: x, to: /../x}]\n", []string{"/../x"}},
		"root":            {valid + "files: [{from: x, to: /}]\n", []string{"absolute"}},
		"requirements":    {valid + "python: {requirements: /etc/passwd}\n", []string{"/etc/passwd"}},
		"no python":       {valid + "python: {requirements: lock}\n", []string{"python3"}},
		"prune path":      {valid + "python: {prune: [a/b]}\n", []string{"a/b"}},
		"prune all":       {valid + "python: {prune: ['..']}\n", []string{".."}},
		"pattern":         {valid + "fonts: {keep: ['[']}\n", []string{"not a pattern"}},
		"too many":        {valid + "apt: [" + many + "]\n", []string{"501", "500"}},
		"too large":       {valid + "#" + strings.Repeat("x", 64<<10), []string{"64 KiB"}},
		"second document": {valid + "---\nname: y\n", []string{"one document"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := image.ParseDefinition([]byte(test.yaml))
			wantKind(t, err, image.KindInvalid, test.texts...)
		})
	}
	if _, err := image.ParseDefinition([]byte(valid)); err != nil {
		t.Error(err)
	}
}

func FuzzParseDefinition(f *testing.F) {
	f.Add([]byte(smallYAML))
	f.Add([]byte("name: x\nbase: {suite: trixie}\nfiles: [{from: a, to: /b}]\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := image.ParseDefinition(data)
		if err != nil {
			if image.KindOf(err) != image.KindInvalid {
				t.Errorf("kind of %v", err)
			}
			return
		}
		for _, name := range append(d.Apt, d.Fonts.Apt...) {
			if strings.HasPrefix(name, "-") || strings.ContainsAny(name, ", /") {
				t.Errorf("package %q was accepted", name)
			}
		}
		for _, file := range d.Files {
			if strings.Contains("/"+file.To+"/", "/../") || strings.Contains("/"+file.From+"/", "/../") {
				t.Errorf("file %+v was accepted", file)
			}
		}
	})
}
