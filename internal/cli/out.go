// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"glovebox/internal/engine"
)

// outFolder is the folder of --out. Everything goes through its handle, so that nothing is written outside of it, and
// into a new file that is then given its name, so that nothing is written through a link. What is there already stays,
// unless --overwrite replaces it.
type outFolder struct {
	root      *os.Root
	overwrite bool
	names     []string
	failed    []error
}

// openOut makes the folder; an empty name is none.
func openOut(name string, overwrite bool) (*outFolder, error) {
	if name == "" {
		return &outFolder{}, nil
	}
	err := os.MkdirAll(name, 0o755)
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(name)
	}
	if err != nil {
		return nil, usage("folder %s cannot be used for --out: %w; choose another one, or mend its permissions", name, err)
	}
	return &outFolder{root: root, overwrite: overwrite}, nil
}

func (o *outFolder) close() error {
	if o.root == nil {
		return nil
	}
	return o.root.Close()
}

func (o *outFolder) note(err error) {
	if err != nil {
		o.failed = append(o.failed, err)
	}
}

// save writes one file.
func (o *outFolder) save(name string, open func() (io.ReadCloser, error)) error {
	content, err := open()
	if err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	defer content.Close()
	if dir := path.Dir(name); dir != "." {
		if err := o.root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("save %s: %w", name, err)
		}
	}
	partial := name + ".glovebox-partial"
	if err := o.write(partial, content); err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	final, err := o.place(partial, name)
	if err != nil {
		return errors.Join(fmt.Errorf("save %s: %w", name, err), o.root.Remove(partial))
	}
	o.names = append(o.names, final)
	return nil
}

func (o *outFolder) write(name string, content io.Reader) error {
	if err := o.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := o.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, o.root.Remove(name))
	}
	return nil
}

// place gives a finished file its name, or a free one like it.
func (o *outFolder) place(partial, name string) (string, error) {
	if o.overwrite {
		return name, o.root.Rename(partial, name)
	}
	const attempts = 1000
	for n := 1; n <= attempts; n++ {
		candidate := name
		if n > 1 {
			extension := path.Ext(name)
			candidate = fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(name, extension), n, extension)
		}
		err := o.root.Link(partial, candidate)
		if err == nil {
			return candidate, o.root.Remove(partial)
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%d files of this name are there already: use --overwrite, or another folder", attempts)
}

// chartTypes are the image types that are saved, with their extensions.
func chartTypes() [][2]string {
	return [][2]string{
		{"image/png", "png"},
		{"image/svg+xml", "svg"},
		{"image/jpeg", "jpg"},
		{"image/webp", "webp"},
		{"image/gif", "gif"},
		{"application/pdf", "pdf"},
	}
}

func hasImage(data engine.Data) bool {
	for _, kind := range chartTypes() {
		if _, ok := data[kind[0]]; ok {
			return true
		}
	}
	return false
}

// chart writes every picture of a bundle as chart-N.
func (o *outFolder) chart(data engine.Data, index int) error {
	var faults []error
	for _, kind := range chartTypes() {
		value, ok := data[kind[0]]
		if !ok {
			continue
		}
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			faults = append(faults, err)
			continue
		}
		content := io.Reader(strings.NewReader(text))
		if kind[0] != "image/svg+xml" {
			content = base64.NewDecoder(base64.StdEncoding, content)
		}
		name := fmt.Sprintf("chart-%d.%s", index+1, kind[1])
		faults = append(faults, o.save(name, func() (io.ReadCloser, error) { return io.NopCloser(content), nil }))
	}
	return errors.Join(faults...)
}
