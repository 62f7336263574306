// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// visible shows control characters instead of obeying them; line ends and tabs stay.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		writeVisible(&out, r)
	}
	return out.String()
}

func writeVisible(out *strings.Builder, r rune) {
	const pictures = 0x2400 // U+2400 is the picture of NUL
	switch {
	case r == '\n' || r == '\t':
		out.WriteRune(r)
	case r < ' ':
		out.WriteRune(pictures + r)
	case r == 0x7f:
		out.WriteRune('\u2421')
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		fmt.Fprintf(out, "<U+%04X>", r)
	default:
		out.WriteRune(r)
	}
}

// visibleWriter is for a terminal: what a program prints cannot move the cursor, change colours or answer questions. A
// character may be cut between two writes.
type visibleWriter struct {
	sink  io.Writer
	carry []byte
}

func (w *visibleWriter) Write(p []byte) (int, error) {
	text := append(w.carry, p...)
	var out strings.Builder
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		writeVisible(&out, r)
		text = text[size:]
	}
	w.carry = append([]byte(nil), text...)
	if _, err := io.WriteString(w.sink, out.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
