package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shellQuote returns name as ls writes it on a terminal: bare if a shell would take it
// as it is, else quoted so that it can be pasted into one. Characters that would not
// show are written as $'\n'. The bytes of also are quoted too.
func shellQuote(name, also string) string {
	quote, single, plain := name == "", false, true
	for i, r := range name {
		switch {
		case r == '\'':
			quote, single = true, true
		case r == ' ', i == 0 && (r == '#' || r == '~'), name == "{", name == "}", strings.ContainsRune(also, r):
			quote = true
		case r == utf8.RuneError || !unicode.IsGraphic(r) || strings.ContainsRune("!\"$&()*;<=>?[\\^`|", r):
			quote, plain = true, false
		}
	}
	switch {
	case !quote:
		return name
	case single && plain:
		return `"` + name + `"`
	}
	return singleQuote(name)
}

// singleQuote writes name in single quotes, leaving them for what needs an escape.
func singleQuote(name string) string {
	var b strings.Builder
	b.WriteByte('\'')
	escaped := false // inside $'...'
	for len(name) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		char := name[:size]
		name = name[size:]
		switch {
		case r == '\'':
			b.WriteString(`'\''`)
			escaped = false
			continue
		case r != utf8.RuneError && unicode.IsGraphic(r):
			if escaped {
				b.WriteString(`''`)
			}
			escaped = false
			b.WriteString(char)
			continue
		}
		if !escaped {
			b.WriteString(`'$'`)
		}
		escaped = true
		for _, c := range []byte(char) {
			b.WriteString(escapeByte(c))
		}
	}
	b.WriteByte('\'')
	return b.String()
}

func escapeByte(c byte) string {
	if c >= '\a' && c <= '\r' {
		return `\` + string("abtnvfr"[c-'\a'])
	}
	return fmt.Sprintf(`\%03o`, c)
}

// unhide returns path as it is, or quoted if it has characters that would not show or
// would move the cursor of a terminal.
func unhide(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }) {
		return shellQuote(path, "")
	}
	return path
}
