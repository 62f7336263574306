// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"glovebox/internal/image"
)

func TestStoreBeforeAndAfterABuild(t *testing.T) {
	t.Parallel()
	store, _, dir := openFake(t)
	if images, err := store.List(); err != nil || len(images) != 0 {
		t.Fatalf("List of an empty store: %v, %v", images, err)
	}
	_, err := store.Resolve("small")
	wantKind(t, err, image.KindNotBuilt, `image "small" is not built`, "glovebox image build small")
	wantKind(t, store.Remove(t.Context(), "small"), image.KindNotBuilt, `"small"`)

	built := mustBuild(t, store, nil)
	if want := filepath.Join(dir, "built"); !strings.HasPrefix(built.Rootfs, want) {
		t.Errorf("rootfs %s is not below %s", built.Rootfs, want)
	}
	images, err := store.List()
	if err != nil || len(images) != 1 || images[0].Name != "small" || images[0].Rootfs != built.Rootfs {
		t.Errorf("List: %+v, %v", images, err)
	}
	for _, key := range []string{"small", built.Digest, built.Digest[:20], strings.TrimPrefix(built.Digest, "sha256:")[:8]} {
		if shown, err := store.Show(key); err != nil || shown.Digest != built.Digest {
			t.Errorf("Show(%q): %v, %v", key, shown.Digest, err)
		}
	}
	if err := store.Remove(t.Context(), "small"); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"built", "layers"} {
		if got := entries(t, filepath.Join(dir, sub)); len(got) != 0 {
			t.Errorf("%s still holds %q", sub, got)
		}
	}
}

func TestRemoveKeepsWhatOthersNeed(t *testing.T) {
	t.Parallel()
	store, steps, _ := openFake(t)
	mustBuild(t, store, nil)
	other := strings.Replace(smallYAML, "name: small", "name: other", 1)
	kept := mustBuild(t, store, map[string]string{image.DefinitionFile: other})
	if err := store.Remove(t.Context(), "small"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(kept.Rootfs); err != nil {
		t.Error(err)
	}
	steps.takeCalls()
	mustBuild(t, store, nil)
	if got := steps.takeCalls(); got != "finish" {
		t.Errorf("steps %q: the layers that the other image was made of are gone", got)
	}
}

func TestPinnedImagesStay(t *testing.T) {
	t.Parallel()
	store, steps, _ := openFake(t)
	built := mustBuild(t, store, nil)
	release, err := built.Pin()
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, store.Remove(t.Context(), "small"), image.KindInUse, `"small"`, "in use")

	steps.stamp = "newer"
	if _, err := store.Build(t.Context(), small(nil), image.BuildOptions{Refresh: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(built.Rootfs); err != nil {
		t.Errorf("a build removed a pinned image: %v", err)
	}
	release()
	if err := store.Remove(t.Context(), "small"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(built.Rootfs); !os.IsNotExist(err) {
		t.Errorf("the image that nobody pins any more: %v", err)
	}
	_, err = built.Pin()
	wantKind(t, err, image.KindNotBuilt, "removed meanwhile")
}

func TestNamesThatCannotBe(t *testing.T) {
	t.Parallel()
	store, _, _ := openFake(t)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "A", "-a", "1a", "a_b", "lock", "layers", "built", "tmp-x", strings.Repeat("a", 64)} {
		_, err := store.Resolve(name)
		wantKind(t, err, image.KindInvalid, "name")
		wantKind(t, store.Remove(t.Context(), name), image.KindInvalid, "name")
	}
}

func TestDamagedImage(t *testing.T) {
	t.Parallel()
	store, _, _ := openFake(t)
	built := mustBuild(t, store, nil)
	manifest := filepath.Join(filepath.Dir(built.Rootfs), "manifest.json")
	for name, content := range map[string]string{"no JSON": "{", "later version": `{"version": 99}`} {
		if err := os.WriteFile(manifest, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := store.Resolve("small")
		wantKind(t, err, image.KindFailed, "cannot be used: build it again")
		images, err := store.List()
		if len(images) != 0 || err == nil {
			t.Errorf("%s: List returns %v, %v", name, images, err)
		}
	}
	if err := store.Remove(t.Context(), "small"); err != nil {
		t.Errorf("a damaged image cannot be removed: %v", err)
	}
}
