package listing_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
)

// TestTranscripts runs testdata/*.txt, which show what goes over the wire:
//
//	build           make the entries, one a line
//	delete, rename  PATH... or FROM TO
//	chmod           PATH MODE
//	page            list a page of the paths; of the same paths again with "next"
//	stream          list the paths by one stream, each sent when the one before is done
//
// Options: limit=N bytes=N hidden=PRESET columns=(a,b) own user=NAME snapshot. Run with
// -rewrite after a change that is meant.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		s := &script{world: newWorld(t)}
		datadriven.RunTest(t, path, s.run)
	})
}

// script is what a transcript's commands share: the call that "next" goes on with.
type script struct {
	*world
	paths  []string
	cursor []byte
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	args := d.CmdArgs
	switch d.Cmd {
	case "build":
		s.build(inputLines(d)...)
	case "delete":
		s.do(muster.Delete{Path: args[0].Key, Recursive: true})
	case "rename":
		s.do(muster.Rename{From: args[0].Key, To: args[1].Key})
	case "chmod":
		mode, err := strconv.ParseUint(args[1].Key, 8, 16)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		bits := uint16(mode)
		s.do(muster.SetAttr{Path: args[0].Key, Mode: &bits})
	case "page":
		return s.page(t, d)
	case "stream":
		return s.stream(t, d)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return fmt.Sprintf("txid %d\n", s.tree.Stats().Txid)
}

func inputLines(d *datadriven.TestData) []string { return strings.Split(d.Input, "\n") }

func (s *script) call(t *testing.T, d *datadriven.TestData) (*listing.Lister, *muster.Identity, listing.Options) {
	var c listing.Config
	var o listing.Options
	caller := root
	for _, arg := range d.CmdArgs {
		var err error
		switch arg.Key {
		case "limit":
			o.Limit, err = strconv.Atoi(arg.Vals[0])
		case "bytes":
			c.PageBytes, err = strconv.Atoi(arg.Vals[0])
		case "hidden":
			o.Hidden, err = muster.ParseHidden(arg.Vals[0])
		case "columns":
			o.Columns, err = rows.ParseColumns(arg.Vals)
		case "own":
			o.Own = true
		case "snapshot":
			o.Consistency = muster.ConsistencySnapshot
		case "user":
			caller = &muster.Identity{User: arg.Vals[0]}
		case "next":
		default:
			err = fmt.Errorf("unknown option %s", arg.Key)
		}
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	return s.lister(c), caller, o
}

func (s *script) page(t *testing.T, d *datadriven.TestData) string {
	l, caller, o := s.call(t, d)
	if !d.HasArg("next") {
		s.paths, s.cursor = inputLines(d), nil
	}
	if d.Input == "none" {
		s.paths = nil
	}
	m, err := page(t.Context(), l, caller, s.paths, o, s.cursor)
	if err != nil {
		return s.failure(err)
	}
	s.cursor = m.Cursor
	return s.show(l, m, o)
}

func (s *script) stream(t *testing.T, d *datadriven.TestData) string {
	l, caller, o := s.call(t, d)
	var b strings.Builder
	next, send := lockstep(inputLines(d), func(m *listing.Message) error {
		if len(m.Outcomes) > 0 || len(m.Frame) > 0 {
			b.WriteString(s.show(l, m, o))
		}
		if m.Done {
			fmt.Fprintf(&b, "done: %d rows, %d outcomes\n", m.TotalRows, m.TotalOutcomes)
		}
		return nil
	})
	if err := l.Stream(t.Context(), caller, o, nil, next, send); err != nil {
		return b.String() + s.failure(err)
	}
	return b.String()
}

func (s *script) failure(err error) string {
	return fmt.Sprintf("%s: %v\n", muster.CodeOf(err).Name(), err)
}

// show gives a message line by line: rows, outcomes and where the cursor is.
func (s *script) show(l *listing.Lister, m *listing.Message, o listing.Options) string {
	var b strings.Builder
	batch, err := rows.Decode(bytes.Clone(m.Frame), o.Columns.Normal())
	if err != nil {
		return s.failure(err)
	}
	for i := range batch.Len() {
		e := batch.Entry(i)
		fmt.Fprintf(&b, "%d %q", batch.PathIndex(i), e.Name)
		if batch.Columns().Has(rows.ColKind) {
			fmt.Fprintf(&b, " %v", e.Kind)
		}
		if e.Target != "" {
			fmt.Fprintf(&b, " -> %s", e.Target)
		}
		b.WriteByte('\n')
	}
	for _, out := range m.Outcomes {
		fmt.Fprintf(&b, "path %d: %s, %d rows", out.Index, out.Code.Name(), out.Rows)
		if out.ChangedAt > 0 {
			fmt.Fprintf(&b, ", changed at %d of %d", out.ChangedAt, out.Txid)
		}
		if out.Message != "" {
			fmt.Fprintf(&b, ": %s", out.Message)
		}
		b.WriteByte('\n')
	}
	switch {
	case len(m.Cursor) > 0:
		fmt.Fprintf(&b, "cursor of %d bytes: %s\n", len(m.Cursor), l.DescribeCursor(m.Cursor, o))
	case m.Done && m.TotalOutcomes == 0:
		b.WriteString("done\n")
	}
	return b.String()
}
