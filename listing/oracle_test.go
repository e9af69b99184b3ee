package listing_test

import (
	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/namespace"
)

// oracle lists directory by directory with nothing but the tree's own reader.
func (w *world) oracle(caller *muster.Identity, paths []string, o listing.Options) *listed {
	w.Helper()
	view, err := w.tree.View()
	if err != nil {
		w.Fatal(err)
	}
	defer view.Release()
	var got listed
	for i, path := range paths {
		out := muster.Outcome{Index: uint64(i), Txid: view.Txid()}
		entries, err := w.readDir(view, caller, path, o, &out)
		if err != nil {
			out.Code = muster.CodeOf(err)
			out.Message = "set"
		}
		for _, e := range entries {
			got.rows = append(got.rows, row{uint32(i), project(e, o.Columns)})
		}
		out.Rows = uint64(len(entries))
		got.outcomes = append(got.outcomes, out)
	}
	return &got
}

func (w *world) readDir(view *namespace.View, caller *muster.Identity, path string, o listing.Options, out *muster.Outcome) ([]muster.Entry, error) {
	r := view.NewReader(caller)
	defer r.Close()
	res, err := r.Resolve(path, !o.Own)
	if err != nil {
		return nil, err
	}
	out.ID = res.ID()
	var heads [1]namespace.Head
	if res.Kind() == muster.Directory {
		if err := r.Heads([]uint64{res.ID()}, heads[:]); err != nil {
			w.Fatal(err)
		}
		out.ChangedAt = heads[0].ChangedAt
	}
	var buf muster.Row
	if o.Own || res.Kind() != muster.Directory {
		err := r.Row(&res, &buf, true)
		return []muster.Entry{buf.Entry()}, err
	}
	if err := r.Scan(&res, "", true); err != nil {
		return nil, err
	}
	var entries []muster.Entry
	for r.Next(&buf) {
		if !o.Hidden.Hides(buf.Name) {
			entries = append(entries, buf.Entry())
		}
	}
	for i := range entries {
		if e := &entries[i]; e.Kind == muster.Directory {
			if err := r.Heads([]uint64{e.ID}, heads[:]); err != nil {
				w.Fatal(err)
			}
			e.MTime = heads[0].MTime
		}
	}
	return entries, r.Err()
}

// project clears what the columns leave out.
func project(e muster.Entry, c rows.Columns) muster.Entry {
	c = c.Normal()
	p := muster.Entry{Name: e.Name}
	keep := func(column rows.Columns, set func()) {
		if c.Has(column) {
			set()
		}
	}
	keep(rows.ColKind, func() { p.Kind = e.Kind })
	keep(rows.ColLength, func() { p.Length = e.Length })
	keep(rows.ColMTime, func() { p.MTime = e.MTime })
	keep(rows.ColATime, func() { p.ATime = e.ATime })
	keep(rows.ColMode, func() { p.Mode = e.Mode })
	keep(rows.ColOwner, func() { p.Owner = e.Owner })
	keep(rows.ColGroup, func() { p.Group = e.Group })
	keep(rows.ColReplication, func() { p.Replication = e.Replication })
	keep(rows.ColBlockSize, func() { p.BlockSize = e.BlockSize })
	keep(rows.ColInodeID, func() { p.ID = e.ID })
	keep(rows.ColFlags, func() { p.Flags = e.Flags })
	keep(rows.ColLinkTarget, func() { p.Target = e.Target })
	if c.Has(rows.ColBlocks) && (e.Kind == muster.File || !c.Has(rows.ColKind)) {
		p.Blocks = append([]muster.Block{}, e.Blocks...) // not nil, since they were asked for
	}
	return p
}

// mask clears what an oracle cannot know: the words of a failure.
func (l *listed) mask() *listed {
	for i := range l.outcomes {
		if l.outcomes[i].Message != "" {
			l.outcomes[i].Message = "set"
		}
	}
	return l
}
