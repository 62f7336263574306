// SPDX-License-Identifier: Apache-2.0

package untar_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"glovebox/internal/guest/fileserver/untar"
)

func limits() untar.Limits { return untar.Limits{Entries: 20, Bytes: 1 << 20, Depth: 8} }

func made(tb testing.TB, format tar.Format, headers ...tar.Header) []byte {
	tb.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range headers {
		h.Format = format
		if err := w.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.WriteString(w, strings.Repeat("x", int(h.Size))); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return archive.Bytes()
}

// all reads an archive to its end, or to what is wrong with it.
func all(archive []byte) (found []string, bytes int, err error) {
	reader, err := untar.NewReader(strings.NewReader(string(archive)), limits())
	for err == nil {
		var entry untar.Entry
		if entry, err = reader.Next(); err != nil {
			break
		}
		var content []byte
		if content, err = io.ReadAll(reader); err == nil {
			found, bytes = append(found, entry.Name), bytes+len(content)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return found, bytes, err
}

// TestForms: what Go's own writer makes in every form is read back.
func TestForms(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("folder name/", 7) + strings.Repeat("n", 120)
	for name, format := range map[string]tar.Format{"ustar": tar.FormatUSTAR, "pax": tar.FormatPAX, "gnu": tar.FormatGNU} {
		headers := []tar.Header{{Name: "a/", Typeflag: tar.TypeDir}, {Name: "a/b", Size: 1000, Typeflag: tar.TypeReg}, {Name: "l", Linkname: "/etc", Typeflag: tar.TypeSymlink}}
		want := "a a/b l"
		if format != tar.FormatUSTAR {
			headers = append(headers, tar.Header{Name: long + "é", Size: 5, Typeflag: tar.TypeReg})
			want += " " + long + "é"
		}
		plain := made(t, format, headers...)
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		for _, archive := range [][]byte{plain, zipped.Bytes()} {
			found, size, err := all(archive)
			if err != nil || strings.Join(found, " ") != want || size < 1000 {
				t.Errorf("%s: %q, %d bytes, %v", name, found, size, err)
			}
		}
	}
}

// TestHostileArchives: names that lead away, too much of anything, and what is cut or broken are errors, never guesses.
func TestHostileArchives(t *testing.T) {
	t.Parallel()
	file := func(name string, size int64) []byte {
		return made(t, tar.FormatPAX, tar.Header{Name: name, Size: size, Typeflag: tar.TypeReg})
	}
	broken := file("a", 10)
	broken[3] ^= 1
	for name, c := range map[string]struct {
		archive []byte
		err     error
	}{
		"upwards":    {file("../a", 1), untar.ErrFormat},
		"inside up":  {file("a/../b", 1), untar.ErrFormat},
		"absolute":   {file("/a", 1), untar.ErrFormat},
		"deep":       {file(strings.Repeat("d/", 9)+"a", 1), untar.ErrLimit},
		"large":      {file("a", 2<<20), untar.ErrLimit},
		"many":       {made(t, tar.FormatUSTAR, make21()...), untar.ErrLimit},
		"checksum":   {broken, untar.ErrFormat},
		"cut":        {file("a", 10)[:515], untar.ErrFormat},
		"cut header": {file("a", 10)[:100], untar.ErrFormat},
		"no archive": {bytes.Repeat([]byte("no archive "), 100), untar.ErrFormat},
		"bad gzip":   {[]byte{0x1f, 0x8b, 1, 2, 3}, untar.ErrFormat},
	} {
		if _, _, err := all(c.archive); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		}
	}
	if found, _, err := all(nil); err != nil || len(found) != 0 {
		t.Errorf("nothing: %v, %v", found, err)
	}
}

func make21() (headers []tar.Header) {
	for range 21 {
		headers = append(headers, tar.Header{Name: "a", Typeflag: tar.TypeReg})
	}
	return headers
}

// FuzzReader: no archive makes it panic, hang, or name what is elsewhere or more than the limits allow.
func FuzzReader(f *testing.F) {
	f.Add(made(f, tar.FormatPAX, tar.Header{Name: "a/é" + strings.Repeat("n", 200), Size: 10, Typeflag: tar.TypeReg}))
	f.Add(made(f, tar.FormatGNU, tar.Header{Name: strings.Repeat("n", 200), Size: 10, Typeflag: tar.TypeReg}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		found, size, _ := all(archive)
		if len(found) > limits().Entries || int64(size) > limits().Bytes {
			t.Fatalf("%d entries, %d bytes", len(found), size)
		}
		for _, name := range found {
			if !fs.ValidPath(name) {
				t.Fatalf("name %q", name)
			}
		}
	})
}
