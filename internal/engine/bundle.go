// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"glovebox/internal/sandbox"
)

// The limits of what a sandbox may say.
const (
	MaxResults      = 256      // bundles of one execution
	MaxResultBytes  = 32 << 20 // of all bundles together
	MaxBundle       = 16 << 20 // of one bundle
	MaxBundleForms  = 16       // MIME types of one bundle
	MaxMIME         = 127
	MaxFaults       = 16 // exceptions of one execution that are shown; a cell has one
	MaxFaultName    = 256
	MaxFaultValue   = 64 << 10
	MaxTraceback    = 256 << 10
	MaxNotices      = 64
	MaxNoticeCode   = 64
	MaxNoticeText   = 4 << 10
	MaxDetail       = 4 << 10
	MaxJSONNestings = 64
)

// checkBundle returns the forms of a bundle that are what they say, and why others are not. The result is nil when
// nothing is left.
func checkBundle(bundle *sandbox.Bundle) (Data, []string) {
	if bundle == nil || len(bundle.Data) == 0 {
		return nil, []string{"a result without content"}
	}
	var faults []string
	if len(bundle.Data) > MaxBundleForms {
		return nil, []string{fmt.Sprintf("a result in %d forms, at most %d are allowed", len(bundle.Data), MaxBundleForms)}
	}
	size := 0
	for _, value := range bundle.Data {
		size += len(value)
	}
	if size > MaxBundle {
		return nil, []string{fmt.Sprintf("a result of %d bytes, at most %d are allowed", size, MaxBundle)}
	}
	data := Data{}
	for name, value := range bundle.Data {
		if !validMIME(name) {
			faults = append(faults, fmt.Sprintf("a form named %q, which is not a MIME type", clip(name, 40)))
			continue
		}
		checked, err := checkForm(name, value)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		data[name] = checked
	}
	if len(data) == 0 {
		return nil, faults
	}
	return data, faults
}

// checkForm holds one value to its MIME type.
func checkForm(mime string, value json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(value) || !utf8.Valid(value) {
		return nil, errors.New("its value is not JSON")
	}
	if isJSONType(mime) {
		if nesting(value) > MaxJSONNestings {
			return nil, fmt.Errorf("it is nested deeper than %d", MaxJSONNestings)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return nil, err
		}
		return compact.Bytes(), nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, errors.New("its value is not a string")
	}
	if isBinaryType(mime) {
		clean := strings.Join(strings.Fields(text), "")
		if _, err := base64.StdEncoding.DecodeString(clean); err != nil {
			return nil, errors.New("its value is not base64")
		}
		text = clean
	}
	return json.Marshal(text)
}

// nesting is how deep arrays and objects stand in each other.
func nesting(value []byte) int {
	depth, deepest, quoted, escaped := 0, 0, false, false
	for _, b := range value {
		switch {
		case escaped:
			escaped = false
		case quoted && b == '\\':
			escaped = true
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[' || b == '{':
			depth++
			deepest = max(deepest, depth)
		case b == ']' || b == '}':
			depth--
		}
	}
	return deepest
}

// validMIME takes type/subtype in lower case, with the parameters of vendors' types left out: no spaces, no quotes.
func validMIME(name string) bool {
	kind, sub, ok := strings.Cut(name, "/")
	if !ok || kind == "" || sub == "" || len(name) > MaxMIME {
		return false
	}
	for _, c := range []byte(kind + sub) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("!#$&^_.+-", c) < 0 {
			return false
		}
	}
	return true
}

func isJSONType(mime string) bool {
	return mime == "application/json" || strings.HasSuffix(mime, "+json") || mime == "application/geo+json"
}

func isBinaryType(mime string) bool {
	switch mime {
	case "image/svg+xml":
		return false
	case "application/pdf", "application/octet-stream":
		return true
	}
	return strings.HasPrefix(mime, "image/") || strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

// checkFault bounds an exception: the end of a traceback is where the cause stands, so both ends are kept.
func checkFault(fault *sandbox.Fault) *sandbox.Fault {
	if fault == nil {
		return nil
	}
	return &sandbox.Fault{
		Name: boundText(fault.Name, MaxFaultName), Value: boundText(fault.Value, MaxFaultValue),
		Traceback: boundText(fault.Traceback, MaxTraceback),
	}
}

// boundText makes text valid UTF-8 of at most most bytes, leaving out its middle.
func boundText(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	note := fmt.Sprintf("\n[... %d bytes left out here ...]\n", len(text)-most)
	room := max(0, most-len(note))
	head, tail := text[:room/2], text[len(text)-room/2:]
	return strings.ToValidUTF8(head, "") + note + strings.ToValidUTF8(tail, "")
}

// checkNotice returns a notice that is safe to pass on, or nil.
func checkNotice(notice *sandbox.Notice) *sandbox.Notice {
	if notice == nil || notice.Text == "" {
		return nil
	}
	code := notice.Code
	for _, c := range []byte(code) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '.' {
			code = ""
			break
		}
	}
	if code == "" || len(code) > MaxNoticeCode {
		code = "notice"
	}
	return &sandbox.Notice{Code: code, Text: boundText(notice.Text, MaxNoticeText)}
}
