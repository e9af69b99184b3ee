package main

import (
	"bufio"
	"strconv"
	"strings"
	"time"

	"github.com/muster-fs/muster"
)

// statFormat prints one entry in the format of stat -c.
type statFormat func(out *bufio.Writer, r *row)

// parseStatFormat takes a format apart; nil for the empty one.
func parseStatFormat(format string) (statFormat, error) {
	if format == "" {
		return nil, nil
	}
	var parts []statFormat
	for rest := format; rest != ""; {
		literal, directive, found := strings.Cut(rest, "%")
		if literal != "" {
			parts = append(parts, func(out *bufio.Writer, _ *row) { out.WriteString(literal) })
		}
		if !found {
			break
		}
		part, size, err := parseDirective(directive)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
		rest = directive[size:]
	}
	return func(out *bufio.Writer, r *row) {
		for _, part := range parts {
			part(out, r)
		}
	}, nil
}

// maxWidth bounds the width of a directive.
const maxWidth = 10_000

// parseDirective reads flags, width and letter of what follows a percent sign, and
// returns how many bytes they have.
func parseDirective(s string) (statFormat, int, error) {
	flags := len(s) - len(strings.TrimLeft(s, "-0"))
	end := flags
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	if end == len(s) {
		return nil, 0, usagef("format: %%%s at the end has no directive; a percent sign is %%%%", s)
	}
	text, ok := statDirective(s[end])
	if !ok {
		return nil, 0, usagef("format: %%%s is no directive; they are %%n %%N %%s %%F %%a %%A %%U %%G %%x %%X %%y %%Y %%i %%r %%o %%b %%%%", s[:end+1])
	}
	width := 0
	if end > flags {
		var err error
		if width, err = strconv.Atoi(s[flags:end]); err != nil || width > maxWidth {
			return nil, 0, usagef("format: %%%s: the width is more than %d", s[:end+1], maxWidth)
		}
	}
	left, zeros := strings.Contains(s[:flags], "-"), strings.Contains(s[:flags], "0")
	return func(out *bufio.Writer, r *row) {
		value := text(r)
		switch _, notNumber := strconv.ParseInt(value, 10, 64); {
		case left:
			value = padRight(value, width)
		case zeros && notNumber == nil:
			value = strings.Repeat("0", max(0, width-len(value))) + value
		default:
			value = padLeft(value, width)
		}
		out.WriteString(value)
	}, end + 1, nil
}

// statDirective returns what a directive's letter stands for.
func statDirective(letter byte) (text func(r *row) string, ok bool) {
	seconds := func(ms int64) string { return strconv.FormatInt(time.UnixMilli(ms).Unix(), 10) }
	text, ok = map[byte]func(r *row) string{
		'n': func(r *row) string { return r.path },
		'N': quotedName,
		's': func(r *row) string { return strconv.FormatInt(r.Length, 10) },
		'F': kindText,
		'a': func(r *row) string { return strconv.FormatUint(uint64(r.Mode), 8) },
		'A': func(r *row) string { return modeText(r.Kind, r.Mode) },
		'U': func(r *row) string { return r.Owner },
		'G': func(r *row) string { return r.Group },
		'x': func(r *row) string { return fullTime(r.ATime) },
		'X': func(r *row) string { return seconds(r.ATime) },
		'y': func(r *row) string { return fullTime(r.MTime) },
		'Y': func(r *row) string { return seconds(r.MTime) },
		'i': func(r *row) string { return strconv.FormatUint(r.ID, 10) },
		'r': replicationText,
		'o': func(r *row) string { return strconv.FormatInt(r.BlockSize, 10) },
		'b': func(r *row) string { return strconv.Itoa(len(r.Blocks)) },
		'%': func(*row) string { return "%" },
	}[letter]
	return text, ok
}

// quotedName is the path in quotes, with the target if it is a link.
func quotedName(r *row) string {
	name := alwaysQuote(r.path)
	if r.Kind == muster.Link {
		name += " -> " + alwaysQuote(r.Target)
	}
	return name
}

// alwaysQuote quotes as shellQuote does, but never leaves the quotes out.
func alwaysQuote(name string) string {
	if quoted := shellQuote(name, ""); quoted != name {
		return quoted
	}
	return singleQuote(name)
}
