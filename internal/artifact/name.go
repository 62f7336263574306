// SPDX-License-Identifier: Apache-2.0

package artifact

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The greatest lengths of a safe name.
const (
	MaxNameElement = 200
	MaxNamePath    = 1000
)

// SafePath makes a hostile path beneath a folder fit for people, headers and other file systems: every element keeps
// its letters of any script; control and direction-changing characters, separators of other systems and bytes that are
// not UTF-8 become an underscore; no element is empty, . or ..; lengths are bounded.
func SafePath(name string) string {
	var elements []string
	for element := range strings.SplitSeq(name, "/") {
		if element == "" || element == "." {
			continue
		}
		elements = append(elements, safeElement(element))
	}
	safe := strings.Join(elements, "/")
	if len(safe) > MaxNamePath {
		safe = clipName(path.Base(safe), MaxNameElement)
	}
	if safe == "" {
		return "_"
	}
	return safe
}

func safeElement(element string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, r == '\\', r == '/', r == ':', unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r),
			unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r), !unicode.IsGraphic(r) && r != '\u200d' && r != '\u200c':
			return '_'
		default:
			return r
		}
	}, element)
	safe = strings.TrimRight(strings.TrimSpace(safe), ".")
	if safe == "" {
		return "_"
	}
	return clipName(safe, MaxNameElement)
}

// clipName shortens a name to most bytes, keeping a short extension.
func clipName(name string, most int) string {
	if len(name) <= most {
		return name
	}
	const longestExtension = 16
	extension := path.Ext(name)
	if len(extension) > longestExtension {
		extension = ""
	}
	stem := name[:most-len(extension)]
	for !utf8.ValidString(stem) {
		stem = stem[:len(stem)-1]
	}
	return stem + extension
}

// unique returns name, or name with a number before its extension when another artifact has it already. Names that
// differ by case alone count as the same, since other systems take them so.
func (c *collector) unique(name string) string {
	candidate := name
	for n := 2; c.used[strings.ToLower(candidate)]; n++ {
		extension := path.Ext(name)
		candidate = fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(name, extension), n, extension)
	}
	c.used[strings.ToLower(candidate)] = true
	return candidate
}

// ContentDisposition returns the header that makes a browser save a file under its name: an ASCII form for old clients
// and the exact one for all others (RFC 6266, RFC 8187).
func ContentDisposition(name string) string {
	name = path.Base(SafePath(name))
	ascii := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' || r == '%' || r == ';' {
			return '_'
		}
		return r
	}, name)
	var encoded strings.Builder
	for _, b := range []byte(name) {
		if isAttrChar(b) {
			encoded.WriteByte(b)
		} else {
			fmt.Fprintf(&encoded, "%%%02X", b)
		}
	}
	return `attachment; filename="` + ascii + `"; filename*=UTF-8''` + encoded.String()
}

// isAttrChar is attr-char of RFC 8187.
func isAttrChar(b byte) bool {
	switch {
	case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9':
		return true
	default:
		return strings.IndexByte("!#$&+-.^_`|~", b) >= 0
	}
}
