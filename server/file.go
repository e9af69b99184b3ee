package server

import (
	"slices"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// wanted is what a call with locations reads of a file.
type wanted struct {
	path     []byte
	from, to int64  // bytes
	first    uint32 // of the file's blocks
	link     bool   // a link in last place itself
	all      bool   // a directory or link too: its entry, and no blocks
	read     bool   // the caller must be allowed to read the content
	data     bool   // the content must be there
	sign     bool   // the answer has tokens to read it
}

// file is what one view says of a file. Nothing of it is the view's.
type file struct {
	entry      *pb.EntryReply // its blocks are those that were wanted
	offset     int64          // of the first of them
	first      int            // the number of the first of them in the file
	noData     bool           // bytes that were wanted are in no block
	containers []uint64       // of the blocks, each once
	in         []uint32       // for each block the position of its container
}

// readFile resolves a path once, in a view of its own, and takes from it all that an answer
// needs.
func readFile(tree *namespace.Tree, caller *muster.Identity, want wanted) (f file, err error) {
	view, err := tree.View()
	if err != nil {
		return file{}, err
	}
	defer view.Release()
	reader := view.NewReader(caller)
	defer reader.Close()
	res, err := reader.Resolve(string(want.path), !want.link)
	if err != nil {
		return file{}, err
	}
	if err := want.check(reader, &res); err != nil {
		return file{}, err
	}
	var row muster.Row
	if err := reader.Row(&res, &row, true); err != nil {
		return file{}, err
	}
	f.cut(&row, want)
	if f.noData && want.data {
		return file{}, muster.ErrNoData
	}
	_, name := muster.SplitPath(res.Path())
	f.entry = rpc.RowToPB(&row, name, view.Txid())
	return f, nil
}

// check says whether what the path leads to may be read.
func (w *wanted) check(reader *namespace.Reader, res *namespace.Resolved) error {
	if res.Kind() == muster.Directory && !w.all {
		return muster.ErrIsDirectory
	}
	if w.read {
		return reader.CheckRead(res)
	}
	return nil
}

// cut leaves the wanted blocks in the row, and gathers their containers. The end of a file
// that is being written is not missing.
func (f *file) cut(row *muster.Row, want wanted) {
	begin, end := 0, 0 // blocks
	covered := int64(0)
	for i, b := range row.Blocks {
		if covered+b.Length <= want.from && want.from > 0 || i < int(want.first) {
			begin, f.offset = i+1, covered+b.Length
		}
		if covered < want.to {
			end = i + 1
		}
		covered += b.Length
	}
	f.noData = row.Flags&muster.FlagWriting == 0 && covered < row.Length && want.from < row.Length && want.to > covered
	f.first = begin
	row.Blocks = row.Blocks[min(begin, end):end]
	var containers positions[uint64]
	f.in = make([]uint32, len(row.Blocks))
	for i, b := range row.Blocks {
		f.in[i] = containers.of(b.Container)
	}
	f.containers = containers.keys
}

// positions numbers keys in the order in which they come. It looks through a few, and has
// a map of many.
type positions[K comparable] struct {
	keys []K
	at   map[K]uint32
}

// few is how many keys are looked through in less time than a map takes.
const few = 16

// find returns the position of a key that came before.
func (p *positions[K]) find(key K) (uint32, bool) {
	if p.at != nil {
		i, ok := p.at[key]
		return i, ok
	}
	i := slices.Index(p.keys, key)
	return uint32(i), i >= 0
}

// of returns the position of a key, which is the next one if it did not come before.
func (p *positions[K]) of(key K) uint32 {
	i, ok := p.find(key)
	if ok {
		return i
	}
	i = uint32(len(p.keys))
	p.keys = append(p.keys, key)
	switch {
	case p.at != nil:
		p.at[key] = i
	case len(p.keys) > few:
		p.at = make(map[K]uint32, 4*few)
		for i, key := range p.keys {
			p.at[key] = uint32(i)
		}
	}
	return i
}
