// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func at(path, name string) string { return path + "?path=" + url.QueryEscape(name) }

// TestFilesOfASandbox: put, get, ranges, stat, list, move and remove do what they say, under hostile names too.
func TestFilesOfASandbox(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	files := b.box(t, `{}`) + "/files"
	for _, name := range []string{"a.txt", "d/e/数据 'b;$(id)&c=%2F..%2e.csv", "-rf", "d/a b+c?d#e"} {
		b.ask(t, "PUT", at(files, name), "0123456789", http.StatusOK)
		a := b.ask(t, "GET", at(files, name), "", http.StatusOK)
		if a.body != "0123456789" || a.header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %q %v", name, a.body, a.header)
		}
	}
	ranged := func(value string, want int) answer {
		return b.ask(t, "GET", at(files, "a.txt"), "", want, func(r *http.Request) { r.Header.Set("Range", value) })
	}
	if a := ranged("bytes=2-4", http.StatusPartialContent); a.body != "234" || a.header.Get("Content-Range") != "bytes 2-4/10" {
		t.Errorf("a range: %q %v", a.body, a.header)
	}
	if a := ranged("bytes=-3", http.StatusPartialContent); a.body != "789" {
		t.Errorf("the end: %q", a.body)
	}
	ranged("bytes=20-", http.StatusRequestedRangeNotSatisfiable)
	if a := b.ask(t, "HEAD", at(files, "a.txt"), "", http.StatusOK); a.body != "" || a.header.Get("Content-Length") != "10" {
		t.Errorf("HEAD: %v", a.header)
	}
	if a := b.ask(t, "GET", at(files+"/stat", "d"), "", http.StatusOK); a.object(t)["kind"] != "folder" {
		t.Errorf("stat: %s", a.body)
	}
	b.send(t, files+"/folders", `{"path": "new/er"}`, http.StatusNoContent)
	b.send(t, files+"/move", `{"from": "a.txt", "to": "new/b.txt"}`, http.StatusNoContent)
	b.ask(t, "GET", at(files, "a.txt"), "", http.StatusNotFound)
	if a := b.ask(t, "GET", at(files+"/list", "new"), "", http.StatusOK); !strings.Contains(a.body, "b.txt") || !strings.Contains(a.body, "er") {
		t.Errorf("list: %s", a.body)
	}
	b.ask(t, "DELETE", at(files, "new"), "", http.StatusNoContent)
	b.ask(t, "DELETE", at(files, "new"), "", http.StatusNotFound)
	b.ask(t, "GET", at(files, "d"), "", http.StatusBadRequest)
	for _, name := range []string{"", "../x", "a/../../x", "a\x00b", "\xff", strings.Repeat("x", 5000)} {
		b.ask(t, "PUT", at(files, name), "x", http.StatusBadRequest)
		b.ask(t, "GET", at(files, name), "", http.StatusBadRequest)
	}
	if a := b.send(t, files+"/move", `{"from": "../a", "to": ""}`, http.StatusBadRequest); !strings.Contains(a.body, "leads out") || !strings.Contains(a.body, "empty") {
		t.Errorf("both faults: %s", a.body)
	}
}

// TestUploads: what cannot fit is refused before it is sent, and one that breaks off leaves what was there.
func TestUploads(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	files := b.box(t, `{"limits": {"disk": "1MiB"}}`) + "/files"
	b.ask(t, "PUT", at(files, "a"), "before", http.StatusOK)
	a := b.do(t, "PUT", at(files, "a"), "", "", func(r *http.Request) {
		r.ContentLength, r.Body = 2<<20, io.NopCloser(strings.NewReader(strings.Repeat("x", 2<<20)))
	})
	a.want(t, http.StatusRequestEntityTooLarge, "too_large", "1 MiB")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, b.URL+at(files, "a"), io.MultiReader(strings.NewReader("half"), brokenReader{}))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if response, err := b.Client().Do(request); err == nil {
		response.Body.Close()
		t.Errorf("a broken upload was answered with %d", response.StatusCode)
	}
	deadline := time.Now().Add(time.Minute)
	for strings.Contains(b.ask(t, "GET", files+"/list", "", http.StatusOK).body, ".glovebox") && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if got := b.ask(t, "GET", at(files, "a"), "", http.StatusOK).body; got != "before" {
		t.Errorf("after a broken upload: %q", got)
	}
	if list := b.ask(t, "GET", files+"/list", "", http.StatusOK).body; strings.Contains(list, ".glovebox") {
		t.Errorf("a part is left: %s", list)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the client's disk broke") }

func tarOf(t *testing.T, members map[string]string) string {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for name, content := range members {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.String()
}

// TestArchives: a folder goes out as tar and zip, and a tar comes in.
func TestArchives(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	files := b.box(t, `{}`) + "/files"
	members := map[string]string{"one.txt": "1", "sub/two.txt": strings.Repeat("2", 100_000)}
	a := b.ask(t, "POST", at(files+"/archive", "in"), tarOf(t, members), http.StatusOK)
	if a.object(t)["entries"] != 2.0 {
		t.Errorf("unpacked: %s", a.body)
	}
	got := map[string]string{}
	out := b.ask(t, "GET", at(files+"/archive", "in"), "", http.StatusOK)
	for reader := tar.NewReader(strings.NewReader(out.body)); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			got[header.Name] = string(content)
		}
	}
	out = b.ask(t, "GET", at(files+"/archive", "in")+"&format=zip", "", http.StatusOK)
	zipped, err := zip.NewReader(strings.NewReader(out.body), int64(len(out.body)))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range members {
		file, err := zipped.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(file)
		if err != nil || string(content) != want || got[name] != want {
			t.Errorf("%s: %d bytes in zip (%v), %d in tar", name, len(content), err, len(got[name]))
		}
	}
	b.ask(t, "GET", at(files+"/archive", "none"), "", http.StatusNotFound)
	b.ask(t, "GET", at(files+"/archive", "in")+"&format=rar", "", http.StatusBadRequest)
}

// TestWatch tells what was made, changed and removed.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, change{})
	files := b.box(t, `{}`) + "/files"
	b.ask(t, "PUT", at(files, "w/old"), "1", http.StatusOK)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.URL+at(files+"/watch", "w"), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := b.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := newEvents(response.Body)
	if e := events.next(t); e.name != "ready" {
		t.Fatalf("first: %+v", e)
	}
	b.ask(t, "PUT", at(files, "w/new"), "12", http.StatusOK)
	b.ask(t, "DELETE", at(files, "w/old"), "", http.StatusNoContent)
	seen := map[string]bool{}
	for len(seen) < 2 {
		var change struct{ Kind, Path string }
		if err := json.Unmarshal([]byte(events.next(t).data), &change); err != nil {
			t.Fatal(err)
		}
		seen[change.Kind+" "+change.Path] = true
	}
	if !seen["created w/new"] || !seen["removed w/old"] {
		t.Errorf("seen: %v", seen)
	}
}
