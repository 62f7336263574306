// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bufio"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"glovebox/internal/store"
)

// s3 speaks as much of S3 as a bucket needs.
type s3 struct {
	mu      sync.Mutex
	objects map[string][]byte
}

type s3List struct {
	XMLName     xml.Name `xml:"ListBucketResult"`
	IsTruncated bool
	KeyCount    int
	Contents    []s3Object
	Prefixes    []s3Prefix `xml:"CommonPrefixes"`
}

type s3Object struct {
	Key          string
	Size         int
	LastModified time.Time
}

type s3Prefix struct{ Prefix string }

func (s *s3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
	content, found := s.objects[key]
	switch {
	case r.Method == http.MethodGet && key == "":
		s.list(w, r.URL.Query())
	case r.Method == http.MethodPut:
		body, err := s3Body(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.objects[key] = body
		w.Header().Set("ETag", `"x"`)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !found:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		w.Header().Set("ETag", `"x"`)
		begin, end, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
		from, _ := strconv.Atoi(begin)
		if to, err := strconv.Atoi(end); err == nil {
			content = content[:min(to+1, len(content))]
		}
		if r.Header.Get("Range") != "" {
			w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(content)-1)+"/"+strconv.Itoa(len(s.objects[key])))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(content[min(from, len(content)):])
	}
}

// s3Body reads a body, which may come in chunks with signatures between them.
func s3Body(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var body []byte
	for reader := bufio.NewReader(r.Body); ; {
		line, err := reader.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil || n == 0 {
			return body, err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(reader, chunk); err != nil {
			return nil, err
		}
		body = append(body, chunk[:n]...)
	}
}

func (s *s3) list(w http.ResponseWriter, query url.Values) {
	prefix, delimiter := query.Get("prefix"), query.Get("delimiter")
	var list s3List
	for key, content := range s.objects {
		rest, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		if at := strings.Index(rest, delimiter); delimiter != "" && at >= 0 {
			if common := (s3Prefix{prefix + rest[:at+1]}); !slices.Contains(list.Prefixes, common) {
				list.Prefixes = append(list.Prefixes, common)
			}
			continue
		}
		list.Contents = append(list.Contents, s3Object{key, len(content), noon})
	}
	list.KeyCount = len(list.Contents) + len(list.Prefixes)
	_ = xml.NewEncoder(w).Encode(list)
}

// TestBlobs holds a folder and S3 to the same promises.
func TestBlobs(t *testing.T) { // not parallel: S3's credentials are in the environment
	server := httptest.NewServer(&s3{objects: map[string][]byte{}})
	defer server.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert,errcheck // it is one
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		t.Setenv(name, value)
	}
	for name, address := range map[string]string{
		"folder": "file:" + filepath.Join(t.TempDir(), "odd name ?#%"),
		"s3":     "s3://bucket?region=here&use_path_style=true&disable_https=true&endpoint=" + url.QueryEscape(server.URL),
	} {
		t.Run(name, func(t *testing.T) {
			b, err := store.OpenBlobs(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			blobs(t, b)
		})
	}
}

func blobs(t *testing.T, b *store.Blobs) {
	t.Helper()
	spool := t.TempDir()
	if err := errors.Join(b.Claim(t.Context(), "me"), b.Claim(t.Context(), "me")); err != nil {
		t.Fatal(err)
	}
	if err := b.Claim(t.Context(), "another"); !errors.Is(err, store.ErrForeignBucket) {
		t.Errorf("another database's claim: %v", err)
	}
	for _, id := range []string{"one", "two"} {
		folder := filepath.Join(spool, id)
		err := errors.Join(os.MkdirAll(filepath.Join(folder, "artifacts"), 0o700), os.WriteFile(filepath.Join(folder, "stdout"), []byte("hello "+id), 0o600),
			os.WriteFile(filepath.Join(folder, "artifacts", "0000"), []byte(strings.Repeat("x", 100_000)), 0o600))
		if err := errors.Join(err, b.Take(t.Context(), folder, "alpha", id)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the spool still has %s: %v", id, err)
		}
	}
	file, err := b.Open(t.Context(), "alpha", "one", "stdout")
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(file)
	if err != nil || string(all) != "hello one" {
		t.Errorf("%q, %v", all, err)
	}
	end, err := file.Seek(0, io.SeekEnd)
	if _, seekErr := file.Seek(6, io.SeekStart); err != nil || seekErr != nil || end != 9 {
		t.Errorf("seek: %d, %v, %v", end, err, seekErr)
	}
	rest, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil || string(rest) != "one" {
		t.Errorf("the rest: %q, %v", rest, err)
	}
	for _, absent := range [][2]string{{"alpha", "three"}, {"beta", "one"}} {
		if _, err := b.Open(t.Context(), absent[0], absent[1], "stdout"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v: %v", absent, err)
		}
	}
	if got, want := each(t, b), []string{"alpha/one", "alpha/two"}; cmp.Diff(want, got) != "" {
		t.Errorf("there is %v, want %v", got, want)
	}
	if err := b.Remove(t.Context(), "alpha", "one"); err != nil {
		t.Error(err)
	}
	if got := each(t, b); cmp.Diff([]string{"alpha/two"}, got) != "" {
		t.Errorf("after the removal of one: %v", got)
	}
	if err := errors.Join(b.Remove(t.Context(), "alpha", ""), b.Remove(t.Context(), "never", "was")); err != nil {
		t.Error(err)
	}
	if got := each(t, b); len(got) > 0 {
		t.Errorf("after the removal of all: %v", got)
	}
	if err := b.Remove(t.Context(), "", ""); err == nil {
		t.Error("nobody's files were removed")
	}
}

func each(t *testing.T, b *store.Blobs) (found []string) {
	t.Helper()
	err := b.Each(t.Context(), func(tenant, id string) error {
		found = append(found, tenant+"/"+id)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

func TestBlobsRefuseOtherAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "mem://", "/folder", "gs://bucket", "s3:bucket"} {
		if _, err := store.OpenBlobs(t.Context(), address); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}
