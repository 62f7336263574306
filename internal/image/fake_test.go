// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"glovebox/internal/image"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimEnv); dir != "" {
		victim(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// fakeSteps writes a few files. before, when set, runs first in each step and may
// fail it, stop it, or never return.
type fakeSteps struct {
	before func(ctx context.Context, step, root string) error
	ready  error
	calls  []string
	stamp  string // content of the base's only file that may change
}

func (f *fakeSteps) Ready() error { return f.ready }

func (f *fakeSteps) Base(ctx context.Context, root string) error {
	return f.step(ctx, "base", root, map[string]string{"usr/bin/tool": "tool " + f.stamp, "etc/shadow": "secret"})
}

func (f *fakeSteps) Python(ctx context.Context, root string) error {
	return f.step(ctx, "python", root, map[string]string{"usr/lib/pkg/mod.py": "pass"})
}

func (f *fakeSteps) Node(ctx context.Context, root string) error {
	return f.step(ctx, "node", root, map[string]string{"usr/share/glovebox/node_modules/pkg/index.js": "0"})
}

func (f *fakeSteps) Finish(ctx context.Context, root string) (image.Manifest, error) {
	if err := os.Remove(filepath.Join(root, "etc/shadow")); err != nil {
		return image.Manifest{}, err
	}
	err := f.step(ctx, "finish", root, map[string]string{"etc/hostname": "sandbox\n"})
	return image.Manifest{Architecture: "test", Languages: []image.Language{{Name: "bash", Version: "5"}}}, err
}

func (f *fakeSteps) step(ctx context.Context, step, root string, files map[string]string) error {
	f.calls = append(f.calls, step)
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if f.before != nil {
		return f.before(ctx, step, root)
	}
	return nil
}

// takeCalls returns the steps made since the last call.
func (f *fakeSteps) takeCalls() string {
	calls := strings.Join(f.calls, " ")
	f.calls = nil
	return calls
}

const smallYAML = `
name: small
base: {suite: trixie}
apt: [bash, python3]
python: {requirements: lock.txt}
languages: [bash]
`

// small returns a definition, with files changed or added.
func small(changes map[string]string) fstest.MapFS {
	folder := fstest.MapFS{
		image.DefinitionFile: {Data: []byte(smallYAML)},
		"lock.txt":           {Data: []byte("six==1.0 --hash=sha256:00\n")},
	}
	for name, content := range changes {
		folder[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return folder
}

// openFake returns a store in a new folder whose builds use the fake steps.
func openFake(t *testing.T) (*image.Store, *fakeSteps, string) {
	t.Helper()
	dir := t.TempDir()
	store, steps := reopenFake(t, dir)
	return store, steps, filepath.Join(dir, "images")
}

func reopenFake(t *testing.T, dataDir string) (*image.Store, *fakeSteps) {
	t.Helper()
	store, err := image.Open(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	steps := &fakeSteps{}
	store.SetSteps(steps)
	store.SetFree(image.MinFreeBytes)
	store.SetNow(func() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) })
	return store, steps
}

func mustBuild(t *testing.T, store *image.Store, changes map[string]string) image.Image {
	t.Helper()
	built, err := store.Build(t.Context(), small(changes), image.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// entries lists a folder's names.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(list))
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

// leftovers lists what work in progress there is.
func leftovers(t *testing.T, imagesDir string) []string {
	t.Helper()
	return slices.DeleteFunc(entries(t, imagesDir), func(name string) bool { return !strings.HasPrefix(name, "tmp-") })
}

// wantKind fails unless err has the kind and names all texts.
func wantKind(t *testing.T, err error, kind image.Kind, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of kind %d with %q", kind, texts)
	}
	if got := image.KindOf(err); got != kind {
		t.Errorf("kind of %q is %d, want %d", err, got, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}
