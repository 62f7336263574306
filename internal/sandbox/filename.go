// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxFileName is the greatest length of a file's name in bytes (NAME_MAX of Linux).
const MaxFileName = 255

// ValidFileName returns nil when name can be the name of one file: not empty, UTF-8, no separator of any system, no
// control or direction-changing character, not . or .., at most MaxFileName bytes. Spaces, accents, other scripts and
// shell characters are fine: names never reach a shell.
func ValidFileName(name string) error {
	refuse := func(why string) error { return fmt.Errorf("file name %q is refused: %s", clip(name), why) }
	switch {
	case name == "":
		return refuse("it is empty")
	case len(name) > MaxFileName:
		return refuse(fmt.Sprintf("it has %d bytes and %d are allowed", len(name), MaxFileName))
	case !utf8.ValidString(name):
		return refuse("it is not UTF-8")
	case name == "." || name == "..":
		return refuse("it names a folder")
	case strings.ContainsAny(name, `/\`):
		return refuse("it contains a path separator; give the bare name")
	}
	for _, r := range name {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return refuse("it contains a control character")
		}
	}
	return nil
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
