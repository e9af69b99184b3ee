package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
)

// row is one entry as the reading verbs print it.
type row struct {
	path         string          // absolute
	muster.Entry                 // the name is empty for the own entry of a given path
	located      *client.Located // where the blocks are; nil: not asked for
}

// rowOf returns row i of a batch, which keeps nothing of the batch. Columns that were
// not asked for are zero.
func rowOf(b *client.Batch, i int) row {
	return row{path: b.Path(i), Entry: b.Entry(i)}
}

// locatedRowOf is rowOf for a listing with locations.
func locatedRowOf(b *client.Batch, i int) row {
	l := b.Located(i)
	return row{path: l.Path, Entry: l.Entry, located: &l}
}

// The output formats. Text is each verb's own.
type format string

const (
	formatText  format = "text"
	formatJSON  format = "json"
	formatCSV   format = "csv"
	formatArrow format = "arrow"
)

var allFormats = []format{formatText, formatJSON, formatCSV, formatArrow}

// outputFlags are -o and --columns.
type outputFlags struct {
	format  format
	allowed []format
	columns []string
	located bool // the rows say where blocks are
}

// addOutput adds -o, for the given formats, to a verb's flags.
func (o *outputFlags) addOutput(flags *pflag.FlagSet, allowed ...format) {
	o.format, o.allowed = formatText, allowed
	usage := "print rows as `FORMAT`: text"
	for _, f := range allowed[1:] {
		usage += ", " + string(f)
	}
	flags.VarP(o, "output", "o", usage)
}

// addRows adds -o and --columns for a verb that prints entries.
func (o *outputFlags) addRows(flags *pflag.FlagSet) {
	o.addOutput(flags, allFormats...)
	flags.StringSliceVar(&o.columns, "columns", nil, "with -o json, csv or arrow: only these `COLUMNS`, beside path and name")
}

// Set, String and Type make it the value of -o.
func (o *outputFlags) Set(s string) error {
	if !slices.Contains(o.allowed, format(s)) {
		names := make([]string, len(o.allowed))
		for i, f := range o.allowed {
			names[i] = string(f)
		}
		last := len(names) - 1
		return fmt.Errorf("use %s or %s", strings.Join(names[:last], ", "), names[last])
	}
	o.format = format(s)
	return nil
}

func (o *outputFlags) String() string { return string(o.format) }

// Type is the value's type in the help.
func (o *outputFlags) Type() string { return "format" }

// open checks the flags against each other and returns the columns to ask for and the
// writer of the rows to out, which is nil for text.
func (o *outputFlags) open(out io.Writer) (rows.Columns, rowWriter, error) {
	if o.format == formatText {
		if o.columns != nil {
			return 0, nil, usagef("--columns is for -o json, csv or arrow")
		}
		return 0, nil, nil
	}
	names := slices.Clone(o.columns)
	for i, name := range names {
		switch name {
		case "path": // comes always, with the name
			names[i] = "name"
		case "target":
			names[i] = "link_target"
		}
	}
	columns, err := rows.ParseColumns(names)
	if err != nil {
		return 0, nil, usagef("--columns: %s", reason(err))
	}
	if o.located {
		columns |= rows.ColBlocks
	}
	if o.format == formatArrow {
		if isTerminal(out) {
			return 0, nil, usagef("Arrow is binary and this is a terminal; send it to a file (> rows.arrows) or a program, or use -o json")
		}
		if o.located {
			return columns, newLocatedArrow(out, columns), nil
		}
		return columns, newArrowWriter(out, columns), nil
	}
	buffer, fields := bufio.NewWriterSize(out, outputBuffer), fieldsOf(columns)
	if o.located {
		fields = append(fields, noData)
	}
	if o.format == formatCSV {
		return columns, newCSVWriter(buffer, fields), nil
	}
	return columns, &jsonWriter{out: buffer, fields: fields}, nil
}

// outputBuffer is what is gathered for one write.
const outputBuffer = 64 << 10

// rowWriter writes rows in one of the formats that programs read. Errors are those of
// the writer below and stay.
type rowWriter interface {
	write(r *row) error
	flush() error // hands on what was written so far
	close() error // ends the output, after the last row
}

// jsonWriter writes an object a line.
type jsonWriter struct {
	out    *bufio.Writer
	fields []field
	line   []byte
}

func (w *jsonWriter) write(r *row) error {
	line := append(w.line[:0], '{')
	for i, f := range w.fields {
		if i > 0 {
			line = append(line, ',')
		}
		line = append(line, '"')
		line = append(line, f.name...)
		line = append(line, `":`...)
		if f.text != nil {
			line = appendJSON(line, f.text(r))
		} else {
			line = f.raw(line, r)
		}
	}
	w.line = append(line, "}\n"...)
	_, err := w.out.Write(w.line)
	return err
}

func (w *jsonWriter) flush() error { return w.out.Flush() }
func (w *jsonWriter) close() error { return w.out.Flush() }

// csvWriter writes RFC 4180 with a header and newlines as line ends.
type csvWriter struct {
	out    *bufio.Writer
	csv    *csv.Writer
	fields []field
	record []string
	number []byte
}

func newCSVWriter(out *bufio.Writer, fields []field) *csvWriter {
	w := &csvWriter{out: out, csv: csv.NewWriter(out), fields: fields}
	for _, f := range w.fields {
		w.record = append(w.record, f.name)
	}
	w.csv.Write(w.record) // an error stays and comes with the next write
	return w
}

func (w *csvWriter) write(r *row) error {
	for i, f := range w.fields {
		if f.text != nil {
			w.record[i] = f.text(r)
		} else {
			w.number = f.raw(w.number[:0], r)
			w.record[i] = string(w.number)
		}
	}
	return w.csv.Write(w.record)
}

func (w *csvWriter) flush() error {
	w.csv.Flush()
	if err := w.csv.Error(); err != nil {
		return err
	}
	return w.out.Flush()
}

func (w *csvWriter) close() error { return w.flush() }
