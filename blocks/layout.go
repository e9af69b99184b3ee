package blocks

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/muster-fs/muster"
)

// Layout says what a file consists of. It is not changed once it is shared.
type Layout struct {
	Length int64   // bytes; those that are in no block cannot be read: muster.ErrNoData
	Blocks []Block // in the order of Offset, without overlaps; those of length 0 are passed over
}

// Block is one block of a file, and where it is.
type Block struct {
	ID     muster.BlockID
	File   uint64 // inode id
	Offset int64  // in the file
	Length int64  // that is committed

	Nodes   []muster.Node // the nearest first
	Token   []byte        // to read the block; empty: the cluster has no tokens
	Expires time.Time     // of the token; zero: never
	Seen    []byte        // of the answer that Nodes came with; Refresh wants it back
	Err     error         // why it is not known where the block is; nil: it is
}

// Stale is an answer by which a container's blocks could not be read.
type Stale struct {
	Container uint64
	Seen      []byte
}

// Refresh asks for a file's layout again, with new tokens. What is stale is to be newer in
// the answer than it was; nothing is if only tokens or the length are asked for. Calls of one
// file come one at a time. nil: nobody can be asked.
//
// A file that was replaced or removed meanwhile is an error, such as muster.ErrChanged.
type Refresh func(ctx context.Context, stale []Stale) (Layout, error)

// layout is a file's layout while it is open. It is not changed once it is published, but
// for what its blocks say that is atomic.
type layout struct {
	length int64
	blocks []*block // none is empty
}

// block is what readers share of one block.
type block struct {
	id     muster.BlockID
	offset int64 // in the file
	length int64

	where  atomic.Pointer[where] // replaced as a whole: nodes and token belong together
	served atomic.Uint32         // number of the datanode that answered last, plus one; 0: none
}

// where says where a block is. It is not changed once it is published.
type where struct {
	sites   []site // the best first
	token   []byte
	renew   time.Time // when to ask for another token; zero: never
	expires time.Time
	seen    []byte
	forced  bool // the locations were asked for since they seemed stale
	err     error
}

// site is a datanode that has a replica.
type site struct {
	number muster.NodeNumber
	*pools
}

// newLayout checks l, which is the answer to a question about what is stale. Blocks that old
// has too are shared with it, and learn where they are now.
func newLayout(d *Datanodes, l *Layout, old *layout, stale []Stale, now time.Time) (*layout, error) {
	if l.Length < 0 {
		return nil, fmt.Errorf("%w: a file of %d bytes", muster.ErrCorrupt, l.Length)
	}
	known := make(map[muster.BlockID]*block)
	if old != nil {
		for _, b := range old.blocks {
			known[b.id] = b
		}
	}
	made := &layout{length: l.Length, blocks: make([]*block, 0, len(l.Blocks))}
	end, dials := int64(0), make(map[muster.NodeNumber]*pools)
	for i := range l.Blocks {
		from := &l.Blocks[i]
		if from.Offset < end || from.Length < 0 || from.Length > l.Length-from.Offset {
			return nil, fmt.Errorf("%w: block %v has bytes %d to %d of a file of %d, the one before ends at %d",
				muster.ErrCorrupt, from.ID, from.Offset, from.Offset+from.Length, l.Length, end)
		}
		if from.Length == 0 {
			continue
		}
		end = from.Offset + from.Length
		b := known[from.ID]
		if b == nil || b.offset != from.Offset || b.length != from.Length {
			b = &block{id: from.ID, offset: from.Offset, length: from.Length}
		}
		w := newWhere(d, from, dials, now)
		w.forced = slices.ContainsFunc(stale, func(s Stale) bool { return s.Container == b.id.Container })
		b.where.Store(w)
		made.blocks = append(made.blocks, b)
	}
	return made, nil
}

// newWhere orders the datanodes: those that are in service come before the others. dials has
// the pools of datanodes that were seen before.
func newWhere(d *Datanodes, b *Block, dials map[muster.NodeNumber]*pools, now time.Time) *where {
	w := &where{token: b.Token, expires: b.Expires, seen: b.Seen, err: b.Err, sites: make([]site, 0, len(b.Nodes))}
	if !b.Expires.IsZero() {
		w.renew = now.Add(b.Expires.Sub(now) * 3 / 4)
	}
	for _, inService := range []bool{true, false} {
		for i := range b.Nodes {
			n := &b.Nodes[i]
			if (n.State == muster.InService) != inService {
				continue
			}
			p := dials[n.Number]
			if p == nil {
				p = d.of(n)
				dials[n.Number] = p
			}
			w.sites = append(w.sites, site{n.Number, p})
		}
	}
	return w
}

// find returns the block that has the byte at offset; nil: none has.
func (l *layout) find(offset int64) *block {
	i, j := 0, len(l.blocks) // all before i begin at or before offset, all from j on after it
	for i < j {
		if m := (i + j) / 2; l.blocks[m].offset <= offset {
			i = m + 1
		} else {
			j = m
		}
	}
	if i == 0 || offset >= l.blocks[i-1].offset+l.blocks[i-1].length {
		return nil
	}
	return l.blocks[i-1]
}

// at returns the block that has the byte at offset. At the end it is io.EOF.
func (l *layout) at(offset int64) (*block, error) {
	if offset >= l.length {
		return nil, io.EOF
	}
	if b := l.find(offset); b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("%w: no block has the byte at %d of %d", muster.ErrNoData, offset, l.length)
}
