// SPDX-License-Identifier: Apache-2.0

// Package untar reads tar archives, plain or gzip, inside a sandbox. It knows what is needed to unpack files: names, modes,
// sizes, and the long names of POSIX and GNU. Go's own reader knows users and groups too, and would bring all of that into
// the guest. Archives are hostile: their entries, bytes and folders are bounded, and every name stays beneath its folder.
package untar

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind tells entries apart.
type Kind int

// The kinds of entry; Other is a link, a device, a pipe or something unknown.
const (
	Other Kind = iota
	File
	Folder
)

// Entry is one thing in an archive.
type Entry struct {
	Kind Kind
	// Name is clean and relative, and never leads upwards.
	Name string
	// Mode has the permissions alone.
	Mode fs.FileMode
	Size int64
}

// Limits bound an archive. Bytes counts all that is read of it, unpacked.
type Limits struct {
	Entries int
	Bytes   int64
	Depth   int
}

// ErrLimit is wrapped by errors that mean an archive is over a limit; ErrFormat by those that mean it is none.
var (
	ErrLimit  = errors.New("the archive is over a limit")
	ErrFormat = errors.New("this is no tar archive that can be read")
)

const (
	blockSize = 512
	maxHeader = 64 << 10 // bytes of an extended header
	maxName   = 4096
)

// Reader yields the entries of an archive; after Next, Read yields the content of the entry.
type Reader struct {
	source  *bounded
	limits  Limits
	entries int
	left    int64 // of the content
	padding int64
}

// bounded counts what is read of an archive.
type bounded struct {
	source io.Reader
	left   int64
	limit  int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: it holds more than %d bytes", ErrLimit, b.limit)
	}
	n, err := b.source.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// NewReader returns a Reader on an archive.
func NewReader(source io.Reader, limits Limits) (*Reader, error) {
	buffered := bufio.NewReaderSize(source, blockSize*128)
	var plain io.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		plain = unzipped
	}
	return &Reader{source: &bounded{source: plain, left: limits.Bytes, limit: limits.Bytes}, limits: limits}, nil
}

// Read reads the content of the current entry.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.source.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if errors.Is(err, io.EOF) && r.left > 0 {
		err = fmt.Errorf("%w: it ends inside a file", ErrFormat)
	} else if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Next goes to the next entry, or returns io.EOF.
func (r *Reader) Next() (Entry, error) {
	var name string
	size := int64(-1)
	for {
		if err := r.skip(); err != nil {
			return Entry{}, err
		}
		header, err := r.header()
		if err != nil {
			return Entry{}, err
		}
		if r.entries++; r.entries > r.limits.Entries {
			return Entry{}, fmt.Errorf("%w: it has more than %d entries", ErrLimit, r.limits.Entries)
		}
		switch header.flag {
		case 'x':
			name, size, err = r.extended(name, size)
		case 'L':
			name, err = r.longName()
		case 'g', 'K':
		default:
			return r.entry(header, name, size)
		}
		if err != nil {
			return Entry{}, err
		}
	}
}

func (r *Reader) entry(header header, name string, size int64) (Entry, error) {
	if name == "" {
		name = header.name
	}
	entry := Entry{Mode: fs.FileMode(header.mode & 0o777)}
	switch header.flag {
	case '0', 0, '7':
		entry.Kind = File
		if strings.HasSuffix(name, "/") {
			entry.Kind = Folder
		}
	case '5':
		entry.Kind = Folder
	}
	if entry.Kind == File && size >= 0 {
		r.expect(size)
	}
	entry.Size = r.left
	var err error
	entry.Name, err = r.clean(name)
	return entry, err
}

// clean refuses a name that leads elsewhere, rather than to guess what was meant.
func (r *Reader) clean(name string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("%w: the name %.80q %s", ErrFormat, name, why)
	}
	switch {
	case len(name) > maxName:
		return refuse("is too long")
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return refuse("is not text")
	case strings.HasPrefix(name, "/"):
		return refuse("is absolute")
	}
	cleaned := path.Clean(name)
	if !fs.ValidPath(cleaned) || strings.Contains("/"+name+"/", "/../") {
		return refuse("leads upwards")
	}
	if depth := strings.Count(cleaned, "/"); depth >= r.limits.Depth {
		return "", fmt.Errorf("%w: %.80q lies %d folders deep, and %d are allowed", ErrLimit, name, depth, r.limits.Depth)
	}
	return cleaned, nil
}

// skip reads over what is left of the current entry.
func (r *Reader) skip() error {
	n, err := io.CopyN(io.Discard, r.source, r.left+r.padding)
	if err != nil && (!errors.Is(err, io.EOF) || n < r.left) {
		return r.broken(err)
	}
	r.left, r.padding = 0, 0
	return nil
}

func (r *Reader) broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends too early", ErrFormat)
	}
	return err
}

func (r *Reader) expect(size int64) {
	r.left, r.padding = size, (blockSize-size%blockSize)%blockSize
}

type header struct {
	name string
	mode int64
	flag byte
}

// header reads one; two empty blocks, or nothing at all, are the end.
func (r *Reader) header() (header, error) {
	var block [blockSize]byte
	if _, err := io.ReadFull(r.source, block[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return header{}, io.EOF
		}
		return header{}, r.broken(err)
	}
	if block == [blockSize]byte{} {
		return header{}, io.EOF
	}
	if sum, err := number(block[148:156]); err != nil || sum != checksum(block) {
		return header{}, fmt.Errorf("%w: a header has the wrong checksum", ErrFormat)
	}
	size, err := number(block[124:136])
	if err != nil {
		return header{}, err
	}
	mode, err := number(block[100:108])
	if err != nil {
		return header{}, err
	}
	r.expect(size)
	h := header{name: text(block[0:100]), mode: mode, flag: block[156]}
	if bytes.HasPrefix(block[257:], []byte("ustar\x00")) {
		if prefix := text(block[345:500]); prefix != "" {
			h.name = prefix + "/" + h.name
		}
	}
	if h.flag == '1' || h.flag == '2' || h.flag == '3' || h.flag == '4' || h.flag == '5' || h.flag == '6' {
		r.expect(0) // these have no content, whatever they say
	}
	return h, nil
}

func checksum(block [blockSize]byte) int64 {
	sum := int64(8 * ' ')
	for i, b := range block {
		if i < 148 || i >= 156 {
			sum += int64(b)
		}
	}
	return sum
}

func text(field []byte) string {
	before, _, _ := bytes.Cut(field, []byte{0})
	return string(before)
}

// number reads octal digits, or GNU's binary form.
func number(field []byte) (int64, error) {
	wrong := fmt.Errorf("%w: a number in a header cannot be read", ErrFormat)
	if field[0]&0x80 != 0 {
		value := int64(field[0] & 0x7f)
		for _, b := range field[1:] {
			if value > 1<<54 {
				return 0, wrong
			}
			value = value<<8 | int64(b)
		}
		return value, nil
	}
	digits := strings.Trim(text(field), " ")
	if digits == "" {
		return 0, nil
	}
	value, err := strconv.ParseInt(digits, 8, 62)
	if err != nil || value < 0 {
		return 0, wrong
	}
	return value, nil
}

// content reads a small entry that describes the next one.
func (r *Reader) content() ([]byte, error) {
	if r.left > maxHeader {
		return nil, fmt.Errorf("%w: a header of %d bytes", ErrLimit, r.left)
	}
	content := make([]byte, r.left)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, r.broken(err)
	}
	return content, nil
}

func (r *Reader) longName() (string, error) {
	content, err := r.content()
	return text(content), err
}

// extended reads the records of POSIX: "LENGTH KEY=VALUE\n".
func (r *Reader) extended(name string, size int64) (string, int64, error) {
	content, err := r.content()
	if err != nil {
		return "", 0, err
	}
	for len(content) > 0 {
		digits, _, found := bytes.Cut(content, []byte(" "))
		length, err := strconv.Atoi(string(digits))
		if !found || err != nil || length <= len(digits)+1 || length > len(content) {
			return "", 0, fmt.Errorf("%w: an extended header cannot be read", ErrFormat)
		}
		key, value, _ := strings.Cut(strings.TrimSuffix(string(content[len(digits)+1:length]), "\n"), "=")
		content = content[length:]
		switch key {
		case "path":
			name = value
		case "size":
			if size, err = strconv.ParseInt(value, 10, 62); err != nil || size < 0 {
				return "", 0, fmt.Errorf("%w: a size cannot be read", ErrFormat)
			}
		}
	}
	return name, size, nil
}
