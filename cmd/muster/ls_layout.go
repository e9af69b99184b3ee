package main

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"github.com/muster-fs/muster"
)

// long prints entries with their attributes, in columns as wide as they need.
func (p *lsText) long(entries []row) {
	names, _ := p.names(entries)
	var copies, owner, group, size int // widths
	for i := range entries {
		r := &entries[i]
		copies = max(copies, len(replicas(r)))
		owner = max(owner, displayWidth(r.Owner))
		group = max(group, displayWidth(r.Group))
		size = max(size, len(sizeText(r.Length, p.human)))
	}
	for i := range entries {
		r := &entries[i]
		p.cells(modeText(r.Kind, r.Mode), padLeft(replicas(r), copies), padRight(r.Owner, owner), padRight(r.Group, group),
			padLeft(sizeText(r.Length, p.human), size), listTime(r.MTime, p.now))
		p.out.WriteString(names[i])
		if r.Kind == muster.Link {
			target := r.Target
			if p.quote {
				target = shellQuote(target, "")
			}
			p.out.WriteString(" -> ")
			p.out.WriteString(target)
		}
		p.out.WriteByte('\n')
		p.blocks(r)
	}
}

// cells prints texts, each with a space behind it.
func (p *lsText) cells(texts ...string) {
	for _, text := range texts {
		p.out.WriteString(text)
		p.out.WriteByte(' ')
	}
}

// replicas is the number of copies of a file's blocks, or its erasure coding.
func replicas(r *row) string {
	text := r.Replication.String()
	if _, n, ok := strings.Cut(text, "/"); ok {
		return n // rs-6-3 for erasure coding
	}
	return "-"
}

func padLeft(s string, width int) string  { return padding(s, width) + s }
func padRight(s string, width int) string { return s + padding(s, width) }

func padding(s string, width int) string {
	return strings.Repeat(" ", max(0, width-displayWidth(s)))
}

// displayWidth is how many places of a terminal s takes.
func displayWidth(s string) int {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return runewidth.StringWidth(s)
		}
	}
	return len(s)
}

// lineWidth is how wide the lines of a terminal are: what COLUMNS says, or the
// terminal, or 80.
func lineWidth(out io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// minColumn is the narrowest column: a letter and the gap.
const minColumn = 3

// printColumns prints names in as many columns as fit, filled downwards.
func printColumns(out *bufio.Writer, names []string, width int) {
	widths := make([]int, len(names))
	for i, name := range names {
		widths[i] = displayWidth(name)
	}
	lines, columns := len(names), []int{0}
	for n := min(len(names), width/minColumn+1); n > 1; n-- {
		if fit, ok := fitColumns(widths, n, width); ok {
			lines, columns = (len(names)+n-1)/n, fit
			break
		}
	}
	for line := range lines {
		for c, i := 0, line; i < len(names); c, i = c+1, i+lines {
			out.WriteString(names[i])
			if i+lines < len(names) {
				out.WriteString(strings.Repeat(" ", columns[c]-widths[i]))
			}
		}
		out.WriteByte('\n')
	}
}

// fitColumns returns the widths, gaps included, of n columns filled downwards, if they
// fit into a line.
func fitColumns(widths []int, n, width int) ([]int, bool) {
	const gap = 2
	lines := (len(widths) + n - 1) / n
	columns := make([]int, n)
	total := 0
	for i, w := range widths {
		c := i / lines
		if i/lines < (len(widths)-1)/lines {
			w += gap
		}
		if w > columns[c] {
			total += w - columns[c]
			columns[c] = w
		}
		if total >= width {
			return nil, false
		}
	}
	return columns, true
}
