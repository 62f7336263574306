// SPDX-License-Identifier: Apache-2.0

package artifact_test

import (
	"archive/zip"
	"bytes"
	"mime"
	"strings"
	"testing"

	"glovebox/internal/artifact"
)

func zipOf(t *testing.T, members ...string) string {
	t.Helper()
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	for _, member := range members {
		w, err := archive.CreateHeader(&zip.FileHeader{Name: member, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		content := strings.Repeat("x", 20_000)
		if member == "mimetype" {
			content = "application/vnd.oasis.opendocument.spreadsheet"
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

func TestSniff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, want string }{
		"empty":     {"", "application/x-empty"},
		"png":       {"\x89PNG\r\n\x1a\n....", "image/png"},
		"pdf":       {"%PDF-1.7\n", "application/pdf"},
		"text":      {"plain words\n", "text/plain; charset=utf-8"},
		"chinese":   {strings.Repeat("你好", 5000), "text/plain; charset=utf-8"},
		"csv":       {"a,b,c\n1,2,3\n\"x,y\",5,6\n", "text/csv"},
		"semicolon": {"a;b\n1;2\n", "text/csv"},
		"tsv":       {"a\tb\n1\t2\n", "text/tab-separated-values"},
		"long csv":  {"a,b\n" + strings.Repeat("1,"+strings.Repeat("2", 3000)+"\n", 20), "text/csv"},
		"json":      {"{\"a\": [1, 2]}\n", "application/json"},
		"array":     {"[1, 2, 3]", "application/json"},
		"prose":     {"[note] to self", "text/plain; charset=utf-8"},
		"svg":       {"<?xml version=\"1.0\"?>\n<svg xmlns=\"x\"></svg>", "image/svg+xml"},
		"html":      {"<!DOCTYPE html><html><svg></svg></html>", "text/html"},
		"parquet":   {"PAR1....PAR1", "application/vnd.apache.parquet"},
		"npy":       {"\x93NUMPY\x01\x00", "application/x-npy"},
		"sqlite":    {"SQLite format 3\x00", "application/vnd.sqlite3"},
		"xlsx":      {zipOf(t, "[Content_Types].xml", "xl/workbook.xml"), "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
		"docx":      {zipOf(t, "docProps/app.xml", "word/document.xml"), "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
		"ods":       {zipOf(t, "mimetype", "content.xml"), "application/vnd.oasis.opendocument.spreadsheet"},
		"zip":       {zipOf(t, "a.txt", "b.txt"), "application/zip"},
		"cut zip":   {"PK\x03\x04\x14", "application/zip"},
		"gzip":      {"\x1f\x8b\x08\x00", "application/x-gzip"},
		"binary":    {"\x00\x01\x02\xff\xfe", "application/octet-stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := artifact.Sniff([]byte(test.content)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func FuzzSniff(f *testing.F) {
	f.Add([]byte("PK\x03\x04"), "a/b\\c")
	f.Fuzz(func(t *testing.T, content []byte, name string) {
		if _, _, err := mime.ParseMediaType(artifact.Sniff(content)); err != nil {
			t.Errorf("not a MIME type: %v", err)
		}
		if safe := artifact.SafePath(name); strings.HasPrefix(safe, "/") || strings.Contains("/"+safe+"/", "/../") || safe == "" {
			t.Errorf("%q became %q", name, safe)
		}
	})
}

func TestContentDisposition(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"chart.png":       `attachment; filename="chart.png"; filename*=UTF-8''chart.png`,
		"sub/数据 表.csv":    `attachment; filename="__ _.csv"; filename*=UTF-8''%E6%95%B0%E6%8D%AE%20%E8%A1%A8.csv`,
		"a\"b\r\nX: y;.t": `attachment; filename="a_b__X_ y_.t"; filename*=UTF-8''a%22b__X_%20y%3B.t`,
	} {
		got := artifact.ContentDisposition(name)
		if got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
		_, parameters, err := mime.ParseMediaType(got)
		if err != nil || parameters["filename"] == "" {
			t.Errorf("%q does not parse: %v", got, err)
		}
	}
}
