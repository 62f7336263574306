// SPDX-License-Identifier: Apache-2.0

package escapes

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"glovebox/internal/interpreter"
	"glovebox/internal/sandbox"
)

// Probe is one hostile program with what must become of it.
type Probe struct {
	Name string
	// File is the base name of its file.
	File string
	// Language is that of the file's extension.
	Language string
	Source   string
	// Expect is contained, timeout, oom or limit.
	Expect string
	// Kind groups probes in the table: boundary, surface, leak ...
	Kind string
	// Profile is the mount profile of its sandbox, by itself the standard one.
	Profile sandbox.Profile
}

// Load reads the probes of a folder. Their first two lines are comments: "expect:" and "kind:", fields parted by
// semicolons, of which "profile" is the third that counts.
func Load(dir string) ([]Probe, error) {
	var files []string
	for _, language := range interpreter.Languages() {
		found, err := filepath.Glob(filepath.Join(dir, "*"+language.Extension))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	probes := make([]Probe, 0, len(files))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		language, _ := interpreter.OfFile(file)
		probe := Probe{
			Name: strings.TrimSuffix(filepath.Base(file), ".py"), File: filepath.Base(file), Language: language.Name, Source: string(content),
			Profile: sandbox.ProfileStandard,
		}
		lines := bufio.NewScanner(bytes.NewReader(content))
		for n := 0; n < 2 && lines.Scan(); n++ {
			for field := range strings.SplitSeq(strings.TrimLeft(lines.Text(), "#/ "), ";") {
				key, value, _ := strings.Cut(field, ":")
				switch strings.TrimSpace(key) {
				case "expect":
					probe.Expect = strings.TrimSpace(value)
				case "profile":
					probe.Profile = sandbox.Profile(strings.TrimSpace(value))
				case "kind":
					probe.Kind = strings.TrimSpace(value)
				}
			}
		}
		if probe.Expect == "" || probe.Kind == "" {
			return nil, fmt.Errorf("%s: the first two lines lack expect or kind", file)
		}
		probes = append(probes, probe)
	}
	return probes, nil
}
