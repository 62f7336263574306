// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
)

// complete says whether lines are a whole cell. It guesses by a few rules, which :help tells: two empty lines always end
// a cell, one does unless a bracket or a text over several lines is open, and a single line does unless it is open or
// begins a block.
func complete(language string, lines []string) bool {
	last := strings.TrimSpace(lines[len(lines)-1])
	empty := last == ""
	if empty && len(lines) > 1 && strings.TrimSpace(lines[len(lines)-2]) == "" {
		return true
	}
	open, block := scan(language, lines)
	switch {
	case open:
		return false
	case strings.HasSuffix(last, "\\"):
		return false
	case block:
		return empty
	}
	return true
}

// scan reports whether a bracket or a text is open at the end, and whether a line begins a block.
func scan(language string, lines []string) (open, block bool) {
	s := scanner{language: language}
	for _, text := range lines {
		code := s.line(text)
		if s.quote == "" && s.depth == 0 && beginsBlock(language, strings.TrimSpace(code)) {
			block = true
		}
	}
	return s.quote != "" || s.depth > 0, block
}

// beginsBlock looks at a line without its texts and comments.
func beginsBlock(language, code string) bool {
	switch language {
	case "python":
		return strings.HasSuffix(code, ":") || strings.HasPrefix(code, "@")
	case "bash":
		words := strings.FieldsFunc(code, func(r rune) bool { return r == ' ' || r == ';' || r == '\t' })
		return len(words) > 0 && (slices.Contains([]string{"do", "then", "else", "{", "in", "&&", "||", "|", "("}, words[len(words)-1]) ||
			slices.Contains([]string{"for", "while", "until", "if", "case"}, words[0]) && !slices.Contains([]string{"done", "fi", "esac"}, words[len(words)-1]))
	}
	return false
}

// scanner follows texts and brackets from line to line.
type scanner struct {
	language string
	// quote is what ends the text that is open.
	quote string
	depth int
}

// line returns the code of a line: what is in no text and in no comment.
func (s *scanner) line(text string) string {
	var code strings.Builder
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case s.quote != "":
			i += s.inText(rest)
		case s.comment(text, i):
			i = len(text)
		default:
			if s.quote = s.opens(rest); s.quote != "" {
				i += len(s.quote)
				code.WriteByte('"')
				continue
			}
			s.bracket(rest[0])
			code.WriteByte(rest[0])
			i++
		}
	}
	if len(s.quote) == 1 && s.quote != "`" && s.language != "bash" {
		s.quote = "" // these end with their line, well-formed or not
	}
	return code.String()
}

// inText returns how many bytes belong together inside a text.
func (s *scanner) inText(rest string) int {
	switch {
	case rest[0] == '\\' && len(rest) > 1 && (s.language != "bash" || s.quote != "'"):
		return 2 //nolint:mnd // the backslash and what it protects
	case strings.HasPrefix(rest, s.quote):
		n := len(s.quote)
		s.quote = ""
		return n
	}
	return 1
}

// opens returns the quote that rest begins with.
func (s *scanner) opens(rest string) string {
	quotes := []string{`"`, `'`}
	switch s.language {
	case "python":
		quotes = []string{`"""`, `'''`, `"`, `'`}
	case "javascript", "typescript":
		quotes = append(quotes, "`")
	}
	for _, quote := range quotes {
		if strings.HasPrefix(rest, quote) {
			return quote
		}
	}
	return ""
}

func (s *scanner) comment(text string, at int) bool {
	switch s.language {
	case "python":
		return text[at] == '#'
	case "bash":
		return text[at] == '#' && (at == 0 || text[at-1] == ' ' || text[at-1] == '\t' || text[at-1] == ';')
	default:
		return strings.HasPrefix(text[at:], "//")
	}
}

// bracket counts; those of bash stand alone too often.
func (s *scanner) bracket(c byte) {
	switch {
	case s.language == "bash":
	case strings.IndexByte("([{", c) >= 0:
		s.depth++
	case strings.IndexByte(")]}", c) >= 0:
		s.depth = max(0, s.depth-1)
	}
}
