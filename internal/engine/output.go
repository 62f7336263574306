// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"unicode/utf8"
)

// How much of each end of a stream is in the record.
const (
	InlineHead = 64 << 10
	InlineTail = 64 << 10
)

// stream takes what a program prints on one stream: both ends stay in memory, the text from its beginning goes into a
// file, up to a limit, and everything is counted. It is safe for one writer and readers beside it.
type stream struct {
	name  string
	limit int64

	// open makes the file, when there is something to write.
	open func() (*os.File, error)

	mu      sync.Mutex
	file    *os.File // nil until then
	kept    int64
	total   int64
	head    []byte
	tail    []byte
	carry   []byte // the beginning of a character that the next write ends
	invalid int64
	failed  error // why the file ends early
}

func newStream(name string, open func() (*os.File, error), limit int64) *stream {
	return &stream{name: name, open: open, limit: limit}
}

// write takes p, and returns the range of the file that now holds it.
func (s *stream) write(p []byte) (offset, kept int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += int64(len(p))
	s.countInvalid(p)
	s.keepEnds(p)
	offset = s.kept
	if room := s.limit - s.kept; int64(len(p)) > room {
		p = p[:max(0, room)]
	}
	if s.failed == nil && s.file == nil && len(p) > 0 {
		s.file, s.failed = s.open()
	}
	if s.failed != nil || len(p) == 0 {
		return offset, 0
	}
	n, err := s.file.Write(p)
	s.kept += int64(n)
	s.failed = err
	return offset, int64(n)
}

func (s *stream) keepEnds(p []byte) {
	if room := InlineHead - len(s.head); room > 0 {
		n := min(room, len(p))
		s.head = append(s.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > InlineTail {
		p = p[len(p)-InlineTail:]
	}
	s.tail = append(s.tail, p...)
	if len(s.tail) >= 2*InlineTail {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-InlineTail:]...)
	}
}

// countInvalid counts the bytes that are not UTF-8, across writes.
func (s *stream) countInvalid(p []byte) {
	if len(s.carry) > 0 {
		p = append(s.carry, p...)
		s.carry = nil
	}
	end := len(p) - incomplete(p)
	s.carry = append([]byte(nil), p[end:]...)
	p = p[:end]
	if utf8.Valid(p) {
		return
	}
	for len(p) > 0 {
		r, size := utf8.DecodeRune(p)
		if r == utf8.RuneError && size == 1 {
			s.invalid++
		}
		p = p[size:]
	}
}

// incomplete returns how many bytes at the end of p begin a character that is not whole yet.
func incomplete(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// text is the inline form of the stream: whole, or both ends with a line about what is left out between them.
func (s *stream) text() (text string, omitted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head, tail := s.head, s.tail
	if len(tail) > InlineTail {
		tail = tail[len(tail)-InlineTail:]
	}
	omitted = s.total - int64(len(head)) - int64(len(tail))
	if omitted == 0 {
		return string(replaceInvalid(append(bytes.Clone(head), tail...))), 0
	}
	cut := incomplete(head)
	head = head[:len(head)-cut]
	start := 0
	for start < utf8.UTFMax-1 && start < len(tail) && !utf8.RuneStart(tail[start]) {
		start++
	}
	tail = tail[start:]
	omitted += int64(cut + start)
	note := fmt.Sprintf("\n[... %s bytes left out here; the whole %s is kept as a file ...]\n", thousands(omitted), s.name)
	if s.kept < s.total {
		note = fmt.Sprintf("\n[... %s bytes left out here; the first %s bytes of %s are kept as a file ...]\n",
			thousands(omitted), thousands(s.kept), s.name)
	}
	return string(replaceInvalid(head)) + note + string(replaceInvalid(tail)), omitted
}

func replaceInvalid(p []byte) []byte { return bytes.ToValidUTF8(p, []byte("\uFFFD")) }

func (s *stream) totals(omitted int64) StreamTotals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return StreamTotals{Bytes: s.total, Kept: s.kept, Omitted: omitted}
}

// finish returns the count of bytes that are not UTF-8, a character cut by the end included, and why the file ends
// before the limit.
func (s *stream) finish() (invalid int64, failed error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.invalid + int64(len(s.carry)), s.failed
}

// thousands writes n with commas.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
