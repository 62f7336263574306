// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"glovebox/internal/artifact"
)

// collect runs Collect on a folder and returns the report and a function that reads an artifact back.
func collect(t *testing.T, work string, options artifact.Options) (artifact.Report, func(int) string) {
	t.Helper()
	if options.Limits == (artifact.Limits{}) {
		options.Limits = artifact.DefaultLimits()
	}
	root, err := os.Open(work)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	storeDir := t.TempDir()
	store, err := os.OpenRoot(storeDir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	report, err := artifact.Collect(context.Background(), root, store, options)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadDir(storeDir)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != len(report.Artifacts) {
		t.Errorf("%d files are stored for %d artifacts", len(kept), len(report.Artifacts))
	}
	return report, func(i int) string {
		content, err := os.ReadFile(filepath.Join(storeDir, artifact.FileName(i)))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func names(report artifact.Report) []string {
	var names []string
	for _, a := range report.Artifacts {
		names = append(names, a.Name)
	}
	return names
}

func reasons(report artifact.Report) map[artifact.Reason]int {
	reasons := map[artifact.Reason]int{}
	for _, skip := range report.Skipped {
		reasons[skip.Reason] = skip.Count
	}
	return reasons
}

func TestCollectTakesRegularFiles(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write(t, work, "b.txt", "hello")
	write(t, work, "a/数据 表.csv", "x,y\n1,2\n")
	report, read := collect(t, work, artifact.Options{})
	if diff := cmp.Diff([]string{"b.txt", "a/数据 表.csv"}, names(report)); diff != "" {
		t.Error(diff)
	}
	sum := sha256.Sum256([]byte("hello"))
	if first := report.Artifacts[0]; first.Size != 5 || first.SHA256 != hex.EncodeToString(sum[:]) || read(0) != "hello" {
		t.Errorf("got %+v", first)
	}
	if report.Artifacts[1].MIME != "text/csv" {
		t.Errorf("csv is %s", report.Artifacts[1].MIME)
	}
}

func TestCollectSkipsWhatIsNotAFile(t *testing.T) {
	t.Parallel()
	work, outside := t.TempDir(), t.TempDir()
	write(t, outside, "secret", "host")
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(work, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(filepath.Join(outside, "secret"), "out.txt")
	link(outside, "outdir")
	link("/data/in.csv", "in.csv")
	if err := unix.Mkfifo(filepath.Join(work, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(work, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	wantSpecial := 2
	if unix.Mknod(filepath.Join(work, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) == nil {
		wantSpecial++
	}
	write(t, work, ".cache/x", "hidden")
	report, _ := collect(t, work, artifact.Options{Inputs: map[string]bool{"in.csv": true}})
	if len(report.Artifacts) != 0 {
		t.Errorf("took %v", names(report))
	}
	want := map[artifact.Reason]int{artifact.ReasonLink: 2, artifact.ReasonSpecial: wantSpecial, artifact.ReasonHidden: 1}
	if diff := cmp.Diff(want, reasons(report)); diff != "" {
		t.Error(diff)
	}
}

func TestCollectTakesAFileThatReplacedAnInput(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write(t, work, "in.csv", "the program's own")
	report, _ := collect(t, work, artifact.Options{Inputs: map[string]bool{"in.csv": true}})
	if diff := cmp.Diff([]string{"in.csv"}, names(report)); diff != "" {
		t.Error(diff)
	}
}

func TestCollectSkipsSparseGiants(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write(t, work, "giant", "")
	if err := os.Truncate(filepath.Join(work, "giant"), 10<<40); err != nil {
		t.Skipf("this file system holds no sparse file of 10 TiB: %v", err)
	}
	report, _ := collect(t, work, artifact.Options{})
	if reasons(report)[artifact.ReasonTooLarge] != 1 || len(report.Excesses) != 1 {
		t.Errorf("got %+v", report)
	}
}

// TestCollectLimits meets each limit exactly and then by one more.
func TestCollectLimits(t *testing.T) {
	t.Parallel()
	base := artifact.Limits{Count: 100, Single: 1000, Total: 10000, Depth: 5, Folders: 100, Entries: 1000}
	tests := map[string]struct {
		set    func(*artifact.Limits)
		make   func(t *testing.T, dir string, over int)
		reason artifact.Reason
		value  int64
	}{
		"count": {func(l *artifact.Limits) { l.Count = 3 }, func(t *testing.T, dir string, over int) {
			t.Helper()
			for i := range 3 + over {
				write(t, dir, fmt.Sprint(i), "x")
			}
		}, artifact.ReasonCount, 3},
		"single": {func(l *artifact.Limits) { l.Single = 10 }, func(t *testing.T, dir string, over int) {
			t.Helper()
			write(t, dir, "f", strings.Repeat("x", 10+over))
		}, artifact.ReasonTooLarge, 10},
		"total": {func(l *artifact.Limits) { l.Total = 20 }, func(t *testing.T, dir string, over int) {
			t.Helper()
			write(t, dir, "f", strings.Repeat("x", 10))
			write(t, dir, "g", strings.Repeat("x", 10+over))
		}, artifact.ReasonTotal, 20},
		"depth": {func(l *artifact.Limits) { l.Depth = 2 }, func(t *testing.T, dir string, over int) {
			t.Helper()
			write(t, dir, strings.Repeat("d/", 2+over)+"f", "x")
		}, artifact.ReasonDepth, 2},
		"folders": {func(l *artifact.Limits) { l.Folders = 3 }, func(t *testing.T, dir string, over int) {
			t.Helper()
			for i := range 2 + over { // the top folder counts
				write(t, dir, fmt.Sprintf("d%d/f", i), "x")
			}
		}, artifact.ReasonFolders, 3},
		"entries": {func(l *artifact.Limits) { l.Entries = 4 }, func(t *testing.T, dir string, over int) {
			t.Helper()
			for i := range 4 + over {
				write(t, dir, fmt.Sprint(i), "x")
			}
		}, artifact.ReasonEntries, 4},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := base
			test.set(&limits)
			fits, over := t.TempDir(), t.TempDir()
			test.make(t, fits, 0)
			test.make(t, over, 1)
			if report, _ := collect(t, fits, artifact.Options{Limits: limits}); len(report.Skipped) > 0 || len(report.Excesses) > 0 {
				t.Errorf("at the limit: %+v", report)
			}
			report, _ := collect(t, over, artifact.Options{Limits: limits})
			want := []artifact.Excess{{Reason: test.reason, Measured: test.value + 1, Value: test.value}}
			if reasons(report)[test.reason] == 0 || !slices.Equal(report.Excesses, want) {
				t.Errorf("above the limit: %+v, want %+v", report, want)
			}
		})
	}
}

func TestCollectManyFiles(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	const many = 100_000
	for i := range many {
		f, err := os.Create(filepath.Join(work, fmt.Sprintf("f%06d", i)))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	report, _ := collect(t, work, artifact.Options{})
	limit := artifact.DefaultLimits().Count
	if len(report.Artifacts) != limit || reasons(report)[artifact.ReasonCount] != many-limit {
		t.Errorf("took %d, skipped %v", len(report.Artifacts), reasons(report))
	}
	if len(report.Skipped[0].Names) != artifact.MaxSkipNames {
		t.Errorf("%d names are kept", len(report.Skipped[0].Names))
	}
}

func TestCollectDeepTree(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	root, err := os.OpenRoot(work)
	if err != nil {
		t.Fatal(err)
	}
	for range 900 {
		if err := root.Mkdir("d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot("d")
		if err != nil {
			t.Fatal(err)
		}
		root.Close()
		root = next
	}
	root.Close()
	report, _ := collect(t, work, artifact.Options{})
	if reasons(report)[artifact.ReasonDepth] != 1 {
		t.Errorf("got %+v", report.Skipped)
	}
}

func TestCollectHostileNames(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	hostile := []string{
		"a\nb.txt", "a\x1b[31mred.txt", "\xff\xfe.bin", "evil\u202egpj.exe", `..\..\x`, "a'b;$(id).csv", "📈.csv",
		" ", "...hidden", "CON:1", "a_b.txt", strings.Repeat("é", 127), "data.csv", "Data.csv",
	}
	for _, name := range hostile {
		write(t, work, name, name)
	}
	report, _ := collect(t, work, artifact.Options{})
	seen := map[string]bool{}
	for _, a := range report.Artifacts {
		if seen[strings.ToLower(a.Name)] || !utf8.ValidString(a.Name) || strings.ContainsAny(a.Name, "\n\x1b\\\u202e:") ||
			len(a.Name) > artifact.MaxNameElement || strings.TrimSpace(a.Name) == "" {
			t.Errorf("name %q is not safe and unique", a.Name)
		}
		seen[strings.ToLower(a.Name)] = true
	}
	if !seen["a'b;$(id).csv"] || !seen["📈.csv"] || !seen["a_b (2).txt"] {
		t.Errorf("got %q", names(report))
	}
}

func TestCollectStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write(t, work, "f", "x")
	root, err := os.Open(work)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	store, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("test"))
	report, err := artifact.Collect(ctx, root, store, artifact.Options{Limits: artifact.DefaultLimits()})
	if err != nil || reasons(report)[artifact.ReasonStopped] != 1 {
		t.Errorf("got %+v, %v", report, err)
	}
}

// TestCollectWhileTheTreeIsSwapped races links against the collection: nothing from outside may ever be taken.
func TestCollectWhileTheTreeIsSwapped(t *testing.T) {
	t.Parallel()
	work, outside := t.TempDir(), t.TempDir()
	write(t, outside, "f", "host secret")
	write(t, work, "d/f", "own")
	if err := os.Symlink(outside, filepath.Join(work, "l")); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(work, "d"), unix.AT_FDCWD, filepath.Join(work, "l"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 200 {
		report, read := collect(t, work, artifact.Options{})
		for i := range report.Artifacts {
			if content := read(i); content != "own" {
				t.Errorf("took %q", content)
			}
		}
	}
	close(stop)
	<-done
}

// TestCollectNoticesAFileThatGrows reads a file while it is appended to: either the old content or a skip.
func TestCollectNoticesAFileThatGrows(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	write(t, work, "f", strings.Repeat("x", 1<<20))
	grower, err := os.OpenFile(filepath.Join(work, "f"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer grower.Close()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if i < 1<<16 {
					_, _ = io.WriteString(grower, "y")
				}
			}
		}
	}()
	report, _ := collect(t, work, artifact.Options{})
	close(stop)
	<-done
	if got := len(report.Artifacts) + reasons(report)[artifact.ReasonChanged]; got != 1 {
		t.Errorf("got %+v", report)
	}
}
