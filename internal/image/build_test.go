// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"glovebox/internal/image"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	store, steps, dir := openFake(t)
	var progress bytes.Buffer
	built, err := store.Build(t.Context(), small(nil), image.BuildOptions{Progress: &progress})
	if err != nil {
		t.Fatal(err)
	}
	if got := steps.takeCalls(); got != "base python finish" {
		t.Errorf("steps %q", got)
	}
	for _, name := range []string{"usr/bin/tool", "usr/lib/pkg/mod.py", "etc/hostname"} {
		if _, err := os.Stat(filepath.Join(built.Rootfs, name)); err != nil {
			t.Error(err)
		}
	}
	if !strings.HasPrefix(built.Digest, "sha256:") || built.Size == 0 || built.Files == 0 || built.Created.Year() != 2030 {
		t.Errorf("manifest %+v", built.Manifest)
	}
	if got := leftovers(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
	for _, line := range []string{"base ", "python ", "finish "} {
		if !strings.Contains(progress.String(), "\n"+line) && !strings.HasPrefix(progress.String(), line) {
			t.Errorf("progress has no line for %q:\n%s", line, progress.String())
		}
	}
}

func TestBuildMakesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	withFont := strings.Replace(smallYAML, "languages:", "fonts: {fallback: [DejaVu Sans]}\nlanguages:", 1)
	withPackage := strings.Replace(smallYAML, "bash,", "bash, file,", 1)
	reordered := strings.Replace(smallYAML, "[bash, python3]", "[python3, bash]", 1)
	for name, test := range map[string]struct {
		changes map[string]string
		want    string
	}{
		"nothing":             {nil, ""},
		"order of packages":   {map[string]string{image.DefinitionFile: reordered}, ""},
		"a file nobody names": {map[string]string{"README": "x"}, ""},
		"requirements":        {map[string]string{"lock.txt": "six==1.1 --hash=sha256:01\n"}, "python finish"},
		"fonts' fallback":     {map[string]string{image.DefinitionFile: withFont}, "finish"},
		"apt packages":        {map[string]string{image.DefinitionFile: withPackage}, "base finish"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, steps, _ := openFake(t)
			mustBuild(t, store, nil)
			steps.takeCalls()
			mustBuild(t, store, test.changes)
			if got := steps.takeCalls(); got != test.want {
				t.Errorf("steps made: %q, want %q", got, test.want)
			}
		})
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	store, steps, _ := openFake(t)
	_, err := store.Stale(small(nil), image.BuildOptions{})
	wantKind(t, err, image.KindNotBuilt, `"small"`)
	one := image.BuildOptions{Programs: fstest.MapFS{"python/main.py": {Data: []byte("1")}}}
	two := image.BuildOptions{Programs: fstest.MapFS{"python/main.py": {Data: []byte("2")}}}
	if _, err := store.Build(t.Context(), small(nil), one); err != nil {
		t.Fatal(err)
	}
	if stale, err := store.Stale(small(nil), one); err != nil || stale {
		t.Errorf("stale after its build: %v, %v", stale, err)
	}
	if stale, err := store.Stale(small(nil), two); err != nil || !stale {
		t.Errorf("not stale with other programs: %v, %v", stale, err)
	}
	steps.takeCalls()
	if _, err := store.Build(t.Context(), small(nil), two); err != nil || steps.takeCalls() != "finish" {
		t.Errorf("with other programs more than the finish step was made (%v)", err)
	}
}

func TestRefreshMakesEverything(t *testing.T) {
	t.Parallel()
	store, steps, dir := openFake(t)
	first := mustBuild(t, store, nil)
	steps.takeCalls()
	steps.stamp = "newer"
	second, err := store.Build(t.Context(), small(nil), image.BuildOptions{Refresh: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := steps.takeCalls(); got != "base python finish" {
		t.Errorf("steps %q", got)
	}
	if first.Digest == second.Digest || first.Rootfs == second.Rootfs {
		t.Error("another content has the same digest or place")
	}
	if got := entries(t, filepath.Join(dir, "built")); len(got) != 1 {
		t.Errorf("images on disk: %q", got)
	}
	if got := entries(t, filepath.Join(dir, "layers")); len(got) != 2 {
		t.Errorf("layers on disk: %q", got)
	}
}

func TestRefreshWithSameContentKeepsTheImage(t *testing.T) {
	t.Parallel()
	store, _, _ := openFake(t)
	first := mustBuild(t, store, nil)
	release, err := first.Pin()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	second, err := store.Build(t.Context(), small(nil), image.BuildOptions{Refresh: true})
	if err != nil || second.Rootfs != first.Rootfs {
		t.Fatalf("rootfs %s, want %s (%v)", second.Rootfs, first.Rootfs, err)
	}
}

// A step that removes or replaces a file must not change the layer it came from.
func TestLayersAreNotWrittenThrough(t *testing.T) {
	t.Parallel()
	store, steps, dir := openFake(t)
	built := mustBuild(t, store, nil)
	if _, err := os.Stat(filepath.Join(built.Rootfs, "etc/shadow")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the finish step removed etc/shadow, but: %v", err)
	}
	layers, err := filepath.Glob(filepath.Join(dir, "layers/base-*/etc/shadow"))
	if err != nil || len(layers) != 1 {
		t.Errorf("layer's file: %q %v", layers, err)
	}
	steps.takeCalls()
}

func TestFailedStepLeavesTheStoreAsItWas(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{"base", "python", "finish"} {
		t.Run(failing, func(t *testing.T) {
			t.Parallel()
			store, steps, dir := openFake(t)
			before := mustBuild(t, store, nil)
			steps.before = func(_ context.Context, step, _ string) error {
				if step == failing {
					return errors.New("the step broke")
				}
				return nil
			}
			_, err := store.Build(t.Context(), small(nil), image.BuildOptions{Refresh: true})
			wantKind(t, err, image.KindFailed, `build image "small"`, failing, "the step broke")
			if got := leftovers(t, dir); len(got) != 0 {
				t.Errorf("left behind: %q", got)
			}
			after, err := store.Resolve("small")
			if err != nil || after.Rootfs != before.Rootfs {
				t.Errorf("the image became %s, was %s (%v)", after.Rootfs, before.Rootfs, err)
			}
		})
	}
}

func TestFinishedStepsSurviveAFailure(t *testing.T) {
	t.Parallel()
	store, steps, _ := openFake(t)
	broken := errors.New("the step broke")
	steps.before = func(_ context.Context, step, _ string) error {
		if step == "python" {
			return broken
		}
		return nil
	}
	_, err := store.Build(t.Context(), small(nil), image.BuildOptions{})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	steps.takeCalls()
	steps.before = nil
	mustBuild(t, store, nil)
	if got := steps.takeCalls(); got != "python finish" {
		t.Errorf("steps %q, want the finished base to be kept", got)
	}
}

func TestCanceledBuild(t *testing.T) {
	t.Parallel()
	store, steps, dir := openFake(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	steps.before = func(ctx context.Context, _, _ string) error {
		cancel(errors.New("the operator left"))
		return context.Cause(ctx)
	}
	_, err := store.Build(ctx, small(nil), image.BuildOptions{})
	wantKind(t, err, image.KindCanceled, "stopped", "the operator left")
	if got := leftovers(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// victimEnv makes this test program run victim instead of the tests.
const victimEnv = "GLOVEBOX_IMAGE_TEST_VICTIM"

// victim builds into dir, says so when the python step has written a file, and
// then does nothing until it is killed.
func victim(dir string) {
	store, err := image.Open(dir)
	if err != nil {
		panic(err)
	}
	store.SetFree(image.MinFreeBytes)
	store.SetSteps(&fakeSteps{before: func(_ context.Context, step, _ string) error {
		if step == "python" {
			fmt.Println("in the python step")
			_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
		}
		return nil
	}})
	_, err = store.Build(context.Background(), small(nil), image.BuildOptions{})
	fmt.Println("built:", err)
}

func TestKilledBuildLeavesNothingHalfMade(t *testing.T) {
	t.Parallel()
	store, steps, dir := openFake(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+filepath.Dir(dir))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "in the python step\n" {
		t.Fatalf("victim said %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as intended

	if images, err := store.List(); err != nil || len(images) != 0 {
		t.Errorf("after the kill List returns %v, %v", images, err)
	}
	if got := leftovers(t, dir); len(got) != 1 {
		t.Errorf("work in progress: %q, want the victim's folder", got)
	}
	mustBuild(t, store, nil)
	if got := steps.takeCalls(); got != "python finish" {
		t.Errorf("steps %q, want the finished base to be kept", got)
	}
	if got := leftovers(t, dir); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

// lineWriter hands each written line to a function.
type lineWriter func(line string)

func (w lineWriter) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func TestSecondBuildWaitsAndSaysSo(t *testing.T) {
	t.Parallel()
	first, steps, dir := openFake(t)
	second, secondSteps := reopenFake(t, filepath.Dir(dir))

	begun, waiting := make(chan struct{}), make(chan struct{})
	steps.before = func(_ context.Context, step, _ string) error {
		if step == "base" {
			close(begun)
			<-waiting // until the second build has said that it waits
		}
		return nil
	}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		if _, err := first.Build(t.Context(), small(nil), image.BuildOptions{}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	var once sync.Once
	progress := lineWriter(func(line string) {
		if strings.Contains(line, "another build") {
			once.Do(func() { close(waiting) })
		}
	})
	if _, err := second.Build(t.Context(), small(nil), image.BuildOptions{Progress: progress}); err != nil {
		t.Error(err)
	}
	if got := secondSteps.takeCalls(); got != "" {
		t.Errorf("the second build made %q again", got)
	}
}

func TestWaitingBuildCanBeCanceled(t *testing.T) {
	t.Parallel()
	first, steps, dir := openFake(t)
	second, _ := reopenFake(t, filepath.Dir(dir))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	steps.before = func(_ context.Context, step, _ string) error {
		if step != "base" {
			return nil
		}
		progress := lineWriter(func(string) { cancel(errors.New("no patience")) })
		_, err := second.Build(ctx, small(nil), image.BuildOptions{Progress: progress})
		wantKind(t, err, image.KindCanceled, "no patience")
		return nil
	}
	mustBuild(t, first, nil)
}

func TestBuildRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	t.Run("full disk", func(t *testing.T) {
		t.Parallel()
		store, steps, _ := openFake(t)
		store.SetFree(image.MinFreeBytes - 1)
		_, err := store.Build(t.Context(), small(nil), image.BuildOptions{})
		wantKind(t, err, image.KindDisk, "4295 MB", "free some space")
		if got := steps.takeCalls(); got != "" {
			t.Errorf("steps %q", got)
		}
	})
	t.Run("not ready", func(t *testing.T) {
		t.Parallel()
		store, steps, _ := openFake(t)
		steps.ready = &image.Error{Kind: image.KindTool, Text: "mmdebstrap is not installed"}
		_, err := store.Build(t.Context(), small(nil), image.BuildOptions{})
		wantKind(t, err, image.KindTool, "mmdebstrap")
	})
	t.Run("disk runs full", func(t *testing.T) {
		t.Parallel()
		store, steps, _ := openFake(t)
		steps.before = func(context.Context, string, string) error {
			return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
		}
		_, err := store.Build(t.Context(), small(nil), image.BuildOptions{})
		wantKind(t, err, image.KindDisk, "the disk is full")
	})
	t.Run("missing lock file", func(t *testing.T) {
		t.Parallel()
		store, _, _ := openFake(t)
		folder := small(nil)
		delete(folder, "lock.txt")
		_, err := store.Build(t.Context(), folder, image.BuildOptions{})
		wantKind(t, err, image.KindInvalid, "lock.txt", `"small"`)
	})
	t.Run("same file in two layers", func(t *testing.T) {
		t.Parallel()
		store, steps, _ := openFake(t)
		steps.before = func(_ context.Context, step, root string) error {
			if step != "python" {
				return nil
			}
			if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(root, "usr/bin/tool"), nil, 0o644)
		}
		_, err := store.Build(t.Context(), small(nil), image.BuildOptions{})
		wantKind(t, err, image.KindFailed, "/usr/bin/tool", "Debian package")
	})
}
