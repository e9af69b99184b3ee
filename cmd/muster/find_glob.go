package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// compileGlob returns a matcher of a shell pattern as find has it: *, ? and [...]
// match slashes and leading dots too. An unclosed [ stands for itself. It runs in
// linear time, whatever the pattern.
func compileGlob(pattern string, foldCase bool) func(string) bool {
	var b strings.Builder
	b.WriteString(`(?s`)
	if foldCase {
		b.WriteByte('i')
	}
	b.WriteString(`)\A`)
	for len(pattern) > 0 {
		r, size := utf8.DecodeRuneInString(pattern)
		literal := pattern[:size]
		pattern = pattern[size:]
		switch r {
		case '*':
			b.WriteString(`.*`)
			continue
		case '?':
			b.WriteByte('.')
			continue
		case '\\':
			if pattern != "" {
				_, size := utf8.DecodeRuneInString(pattern)
				literal, pattern = pattern[:size], pattern[size:]
			}
		case '[':
			if class, rest, ok := globClass(pattern); ok {
				b.WriteString(class)
				pattern = rest
				continue
			}
		}
		b.WriteString(regexp.QuoteMeta(literal))
	}
	b.WriteString(`\z`)
	compiled, err := regexp.Compile(b.String())
	if err != nil { // a reversed range such as [z-a], or no UTF-8: nothing matches
		return func(string) bool { return false }
	}
	return compiled.MatchString
}

// globClass translates what follows a [ to a class of a regular expression; ok is
// false if it is not closed.
func globClass(s string) (class, rest string, ok bool) {
	var b strings.Builder
	b.WriteByte('[')
	if s != "" && (s[0] == '!' || s[0] == '^') {
		b.WriteByte('^')
		s = s[1:]
	}
	for first := true; s != ""; first = false {
		switch {
		case s[0] == ']' && !first:
			b.WriteByte(']')
			return b.String(), s[1:], true
		case strings.HasPrefix(s, "[:"):
			if end := strings.Index(s, ":]"); end > 0 {
				b.WriteString(s[:end+2])
				s = s[end+2:]
				continue
			}
		case s[0] == '-':
			// A range, or a minus at an end; regular expressions know both.
			b.WriteByte('-')
			s = s[1:]
			continue
		case s[0] == '\\' && len(s) > 1:
			s = s[1:]
		}
		_, size := utf8.DecodeRuneInString(s)
		b.WriteString(regexp.QuoteMeta(s[:size]))
		s = s[size:]
	}
	return "", "", false
}
