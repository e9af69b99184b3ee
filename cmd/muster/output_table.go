package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
)

// table prints the sums of du and count: figures and a path.
type table struct {
	out      *bufio.Writer
	terminal bool
	format   format
	names    []string
	line     []byte
	csv      *csv.Writer
	record   []string
}

// newTable begins a table of the named columns, the last of which is text. Text
// output is the caller's, to table.out.
func newTable(out io.Writer, f format, names ...string) *table {
	t := &table{out: bufio.NewWriterSize(out, outputBuffer), terminal: isTerminal(out), format: f, names: names}
	if f == formatCSV {
		t.csv = csv.NewWriter(t.out)
		t.csv.Write(names) // an error stays and comes with close
	}
	return t
}

// add adds a line of JSON or CSV: figures for all columns but the path.
func (t *table) add(path string, figures ...int64) {
	if t.csv != nil {
		t.record = t.record[:0]
		for _, n := range figures {
			t.record = append(t.record, strconv.FormatInt(n, 10))
		}
		t.csv.Write(append(t.record, path))
		return
	}
	line := append(t.line[:0], '{')
	for i, n := range figures {
		line = fmt.Appendf(line, `"%s":%d,`, t.names[i], n)
	}
	line = fmt.Appendf(line, `"%s":`, t.names[len(figures)])
	line = appendJSON(line, path)
	t.line = append(line, "}\n"...)
	t.out.Write(t.line)
}

// shown returns a path as text shows it.
func (t *table) shown(path string) string {
	if t.terminal {
		return unhide(path)
	}
	return path
}

func (t *table) close() error {
	if t.csv != nil {
		t.csv.Flush()
		if err := t.csv.Error(); err != nil {
			return err
		}
	}
	return t.out.Flush()
}
