// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"bytes"
	"encoding/binary"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// How much of a file's beginning and end is looked at.
const (
	headSize = 8 << 10
	tailSize = 8 << 10
)

// ends keeps a file's first and last bytes.
type ends struct {
	head []byte
	tail []byte
	size int64
}

func newEnds() *ends { return &ends{} }

func (e *ends) Write(p []byte) {
	e.size += int64(len(p))
	if room := headSize - len(e.head); room > 0 {
		e.head = append(e.head, p[:min(room, len(p))]...)
	}
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	e.tail = append(e.tail, p...)
	if over := len(e.tail) - tailSize; over > 0 {
		e.tail = append(e.tail[:0], e.tail[over:]...)
	}
}

// Sniff tells the MIME type of a whole content by its bytes alone.
func Sniff(content []byte) string {
	e := newEnds()
	e.Write(content)
	return e.mime()
}

type magic struct {
	prefix string
	mime   string
}

// magics is our own list, asked before the standard library's.
func magics() []magic {
	return []magic{
		{"PAR1", "application/vnd.apache.parquet"},
		{"ARROW1\x00\x00", "application/vnd.apache.arrow.file"},
		{"FEA1", "application/vnd.apache.arrow.file"},
		{"SQLite format 3\x00", "application/vnd.sqlite3"},
		{"\x89HDF\r\n\x1a\n", "application/x-hdf5"},
		{"\x93NUMPY", "application/x-npy"},
		{"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"},
		{"II*\x00", "image/tiff"},
		{"MM\x00*", "image/tiff"},
		{"BZh", "application/x-bzip2"},
		{"\xfd7zXZ\x00", "application/x-xz"},
		{"\x28\xb5\x2f\xfd", "application/zstd"},
		{"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"},
	}
}

func (e *ends) mime() string {
	if e.size == 0 {
		return "application/x-empty"
	}
	for _, m := range magics() {
		if bytes.HasPrefix(e.head, []byte(m.prefix)) {
			return m.mime
		}
	}
	if bytes.HasPrefix(e.head, []byte("PK\x03\x04")) {
		return e.zipKind()
	}
	detected := http.DetectContentType(e.head)
	kind, _, err := mime.ParseMediaType(detected)
	if err != nil {
		return "application/octet-stream"
	}
	if strings.HasPrefix(kind, "text/") || kind == "application/octet-stream" && e.isUTF8() {
		return e.textKind(kind)
	}
	return kind
}

// zipKind tells office documents apart by the names of the members that stand in the file's first and last bytes.
func (e *ends) zipKind() string {
	kinds := []struct{ prefix, mime string }{
		{"xl/workbook.bin", "application/vnd.ms-excel.sheet.binary.macroEnabled.12"},
		{"xl/", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
		{"word/", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
		{"ppt/", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
	}
	if name, content, ok := firstMember(e.head); ok && name == "mimetype" && strings.HasPrefix(content, "application/") {
		for _, odf := range []string{"spreadsheet", "text", "presentation", "graphics"} {
			if full := "application/vnd.oasis.opendocument." + odf; strings.HasPrefix(content, full) {
				return full
			}
		}
		if strings.HasPrefix(content, "application/epub+zip") {
			return "application/epub+zip"
		}
	}
	members := append(memberNames(e.head, "PK\x03\x04", 26, 30), memberNames(e.tail, "PK\x01\x02", 28, 46)...)
	for _, kind := range kinds {
		for _, member := range members {
			if strings.HasPrefix(member, kind.prefix) {
				return kind.mime
			}
		}
	}
	for _, member := range members {
		if strings.HasSuffix(member, ".npy") {
			return "application/x-npz"
		}
	}
	return "application/zip"
}

// memberNames lists the names in the ZIP headers that begin with signature within data.
func memberNames(data []byte, signature string, lengthAt, nameAt int) []string {
	const most = 256
	var names []string
	for len(names) < most {
		at := bytes.Index(data, []byte(signature))
		if at < 0 || at+nameAt > len(data) {
			return names
		}
		length := int(binary.LittleEndian.Uint16(data[at+lengthAt:]))
		end := min(at+nameAt+length, len(data))
		names = append(names, string(data[at+nameAt:end]))
		data = data[at+len(signature):]
	}
	return names
}

func firstMember(head []byte) (name, content string, ok bool) {
	const fixed = 30
	if len(head) < fixed {
		return "", "", false
	}
	nameLength := int(binary.LittleEndian.Uint16(head[26:]))
	extra := int(binary.LittleEndian.Uint16(head[28:]))
	if fixed+nameLength+extra > len(head) {
		return "", "", false
	}
	return string(head[fixed : fixed+nameLength]), string(head[fixed+nameLength+extra:]), true
}

// isUTF8 reports whether both ends are text; a character may be cut at either edge.
func (e *ends) isUTF8() bool {
	return validInside(e.head) && validInside(e.tail) && !bytes.ContainsRune(e.head, 0)
}

func validInside(p []byte) bool {
	for i := 0; i < utf8.UTFMax && len(p) > 0 && !utf8.RuneStart(p[0]); i++ {
		p = p[1:]
	}
	for i := 0; i < utf8.UTFMax && len(p) > 0 && !utf8.Valid(p); i++ {
		p = p[:len(p)-1]
	}
	return utf8.Valid(p)
}

// textKind tells text formats apart.
func (e *ends) textKind(detected string) string {
	head := e.head
	if last := bytes.LastIndexByte(head, '\n'); e.size > headSize && last > 0 {
		head = head[:last] // the line that the window cuts tells nothing
	}
	start := bytes.TrimSpace(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")))
	end := bytes.TrimSpace(e.tail)
	switch {
	case !e.isUTF8():
		return "text/plain"
	case isSVG(start):
		return "image/svg+xml"
	case detected != "text/plain" && detected != "application/octet-stream":
		return detected
	case isJSON(start, end):
		return "application/json"
	case separated(start, ','), separated(start, ';'):
		return "text/csv"
	case separated(start, '\t'):
		return "text/tab-separated-values"
	default:
		return "text/plain; charset=utf-8"
	}
}

func isSVG(start []byte) bool {
	lower := bytes.ToLower(start[:min(len(start), 1024)])
	at := bytes.Index(lower, []byte("<svg"))
	return at == 0 || at > 0 && bytes.HasPrefix(lower, []byte("<")) && !bytes.Contains(lower[:at], []byte("<html"))
}

func isJSON(start, end []byte) bool {
	if len(start) == 0 || len(end) == 0 {
		return false
	}
	first, last := start[0], end[len(end)-1]
	if first == '{' && last == '}' {
		next := bytes.TrimSpace(start[1:])
		return len(next) > 0 && (next[0] == '"' || next[0] == '}')
	}
	if first == '[' && last == ']' {
		next := bytes.TrimSpace(start[1:])
		return len(next) > 0 && strings.IndexByte(`{["]-0123456789tfn`, next[0]) >= 0
	}
	return false
}

// separated reports whether the first lines all have the same number of separators, and at least one.
func separated(start []byte, separator byte) bool {
	const lines, fewest = 6, 2
	seen, want := 0, 0
	for line := range bytes.SplitSeq(start, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 || seen == lines {
			break
		}
		count, quoted := 0, false
		for _, b := range line {
			switch {
			case b == '"':
				quoted = !quoted
			case b == separator && !quoted:
				count++
			}
		}
		if quoted {
			return seen >= fewest && want > 0
		}
		if count == 0 || seen > 0 && count != want {
			return false
		}
		want = count
		seen++
	}
	return seen >= fewest
}
