package main

import (
	"bufio"
	"slices"
	"strings"
	"time"

	"github.com/muster-fs/muster/client"
)

// lsText prints a listing for people: a block of files that were named, and a block
// for each directory.
type lsText struct {
	*lister
	out      *bufio.Writer
	layout   layout
	quote    bool // names as a shell needs them
	width    int  // of a line
	now      time.Time
	headings bool
	compare  func(a, b row) int // nil: as they come
	stream   bool               // print each row as it comes

	ahead   int           // paths still to come before files can be printed first; 0: blocks keep their order
	files   []row         // named files that are not printed yet
	entries []row         // of the directory that is being listed
	dirs    []lsDirectory // complete, while ahead > 0
	block   lsBlock       // what was printed last
}

type lsDirectory struct {
	path    string
	entries []row
}

// lsBlock is a kind of block.
type lsBlock int

const (
	noBlock lsBlock = iota
	fileBlock
	dirBlock
	openDirBlock // a directory whose rows are being printed as they come
)

func newLsText(l *lister, paths *pathArgs) *lsText {
	p := &lsText{
		lister:   l,
		out:      bufio.NewWriterSize(l.stdout, outputBuffer),
		layout:   l.layout,
		quote:    isTerminal(l.stdout),
		width:    lineWidth(l.stdout),
		now:      time.Now(),
		headings: len(paths.args) > 1 || paths.fromInput() || l.recursive,
		compare:  l.compare(),
	}
	if p.layout == layoutDefault {
		p.layout = layoutLines
		if p.quote && !l.output.located {
			p.layout = layoutColumns
		}
	}
	if l.layout != layoutLines && len(paths.args) > 1 && !paths.fromInput() {
		p.ahead = len(paths.args)
	}
	p.stream = p.layout == layoutLines && p.compare == nil && p.ahead == 0
	return p
}

func (p *lsText) row(r *row, given string) error {
	switch {
	case r.Name == "" && p.stream:
		p.begin(fileBlock, "")
		p.line(r)
	case r.Name == "":
		p.files = append(p.files, *r)
	case p.stream:
		if p.block != openDirBlock {
			p.begin(openDirBlock, given)
		}
		p.line(r)
	default:
		p.entries = append(p.entries, *r)
	}
	return nil
}

func (p *lsText) done(o client.Outcome) error {
	err := o.Err()
	switch {
	case p.block == openDirBlock:
		p.block = dirBlock
	case len(p.entries) > 0 || err == nil && o.Rows == 0:
		p.directory(o.Path)
	}
	if err != nil {
		if err := p.out.Flush(); err != nil {
			return err
		}
		p.fail(o.Path, err)
	}
	if p.ahead > 0 {
		if p.ahead--; p.ahead == 0 {
			p.filesFirst()
		}
	}
	return nil
}

// directory prints a complete directory, or keeps it until the files were printed.
func (p *lsText) directory(path string) {
	if p.ahead > 0 {
		p.dirs = append(p.dirs, lsDirectory{path, p.entries})
		p.entries = nil
		return
	}
	p.printFiles()
	p.printDirectory(path, p.entries)
	p.entries = p.entries[:0]
}

// filesFirst prints what the command line named, now that all of it has come.
func (p *lsText) filesFirst() {
	if p.compare == nil {
		slices.SortFunc(p.files, func(a, b row) int { return strings.Compare(a.path, b.path) })
	}
	p.printFiles()
	for _, d := range p.dirs {
		p.printDirectory(d.path, d.entries)
	}
	p.dirs = nil
}

func (p *lsText) printFiles() {
	if len(p.files) == 0 {
		return
	}
	p.begin(fileBlock, "")
	p.print(p.files)
	p.files = p.files[:0]
}

func (p *lsText) printDirectory(path string, entries []row) {
	p.begin(dirBlock, path)
	if p.layout == layoutLong {
		var total int64
		for i := range entries {
			total += entries[i].Length
		}
		p.out.WriteString("total " + sizeText(total, p.human) + "\n")
	}
	p.print(entries)
}

// begin begins a block. A file that follows files goes on with theirs.
func (p *lsText) begin(block lsBlock, path string) {
	if p.block != noBlock && (block != fileBlock || p.block != fileBlock) {
		p.out.WriteByte('\n')
	}
	p.block = block
	if block == fileBlock || !p.headings {
		return
	}
	if p.quote {
		path = shellQuote(path, ":")
	}
	p.out.WriteString(path)
	p.out.WriteString(":\n")
}

// print prints the entries of a block.
func (p *lsText) print(entries []row) {
	if p.compare != nil {
		slices.SortFunc(entries, p.compare)
	}
	switch p.layout {
	case layoutLong:
		p.long(entries)
	case layoutColumns:
		names, _ := p.names(entries)
		printColumns(p.out, names, p.width)
	default:
		for i := range entries {
			p.line(&entries[i])
		}
	}
}

func (p *lsText) line(r *row) {
	p.out.WriteString(p.name(r))
	p.out.WriteByte('\n')
	p.blocks(r)
}

// blocks prints where a file's blocks are, if that is asked for.
func (p *lsText) blocks(r *row) {
	if r.located != nil {
		writeBlocks(p.out, r.located)
	}
}

// name is what stands for an entry: the name, or the path that was given.
func (p *lsText) name(r *row) string {
	name := r.Name
	if name == "" {
		name = r.path
	}
	if p.quote {
		return shellQuote(name, "")
	}
	return name
}

// names returns the names of the entries. If some are quoted, the others are indented
// as ls does, so that the letters stand below each other.
func (p *lsText) names(entries []row) (names []string, indent string) {
	names = make([]string, len(entries))
	for i := range entries {
		names[i] = p.name(&entries[i])
		if quoted(names[i]) {
			indent = " "
		}
	}
	if !p.quote {
		indent = ""
	}
	for i, name := range names {
		if !quoted(name) {
			names[i] = indent + name
		}
	}
	return names, indent
}

func quoted(name string) bool { return name[0] == '\'' || name[0] == '"' }

func (p *lsText) flush() error { return p.out.Flush() }

func (p *lsText) close() error {
	p.printFiles()
	return p.out.Flush()
}
