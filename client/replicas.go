package client

import (
	"fmt"
	"iter"
	"sync"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/rpc"
)

// NumReplicas returns the number of places of the k-th block of row i, of a listing with
// locations: of an erasure-coded block one for each index, from 1, up to the last replica
// that is there. -1: where the block is is unknown, or was not asked for.
func (b *Batch) NumReplicas(i, k int) int {
	nodes, known := b.Nodes(i, k)
	if !known {
		return -1
	}
	return nodes.Len()
}

// Replica returns what is in the j-th place of the k-th block of row i, from 0 to
// NumReplicas(i, k)-1. Its Node is nil if the replica of an erasure-coded block is absent.
// It allocates nothing: nodes are shared, and not to be changed.
func (b *Batch) Replica(i, k, j int) Replica {
	var r Replica
	nodes, _ := b.Nodes(i, k)
	if at, present := nodes.At(j); present {
		r.Node = b.nodes[at]
	}
	if _, _, coded := b.Replication(i).Coding(); coded {
		r.Index = j + 1
	}
	return r
}

// Replicas are the replicas of the k-th block of row i that are known to be there.
func (b *Batch) Replicas(i, k int) iter.Seq[Replica] {
	return func(yield func(Replica) bool) {
		_, _, coded := b.Replication(i).Coding()
		nodes, _ := b.Nodes(i, k)
		for j := range nodes.Len() {
			at, present := nodes.At(j)
			if !present {
				continue
			}
			r := Replica{Node: b.nodes[at]}
			if coded {
				r.Index = j + 1
			}
			if !yield(r) {
				return
			}
		}
	}
}

// errUnplaced marks the blocks whose place a listing does not tell.
var errUnplaced = fmt.Errorf("%w: it is not known where the block is", muster.ErrUnavailable)

// Located returns row i of a listing with locations as an owned value. Blocks of which it is
// not known where they are have an Err. It is a hint, good for planning where to read: none
// of the blocks can be refreshed by its Stale.
func (b *Batch) Located(i int) Located {
	l := Located{Info: b.Info(i), NoData: b.Flags(i)&muster.FlagNoData != 0}
	l.Entry.Flags &^= muster.FlagNoData
	if len(l.Entry.Blocks) == 0 {
		return l
	}
	places := 0
	for k := range l.Entry.Blocks {
		places += max(0, b.NumReplicas(i, k))
	}
	room, offset := make([]Replica, 0, places), int64(0)
	l.Blocks = make([]LocatedBlock, len(l.Entry.Blocks))
	for k, block := range l.Entry.Blocks {
		to := &l.Blocks[k]
		to.Block, to.Offset = block, offset
		offset += block.Length
		if b.NumReplicas(i, k) < 0 {
			to.Err = errUnplaced
			continue
		}
		first := len(room)
		for r := range b.Replicas(i, k) {
			room = append(room, r)
		}
		to.Replication, to.Replicas = l.Entry.Replication, room[first:len(room):len(room)]
	}
	return l
}

// nodeTable is the table of datanodes of a call, in which its rows name them by position. It
// only grows, so that batches keep the beginning that they know.
type nodeTable []*muster.Node

// maxTable bounds a table: far more than all datanodes, each with all that may happen to it
// in the longest listing.
const maxTable = 4 * muster.MaxNodes

// maxTold bounds the bytes that a call tells of datanodes: their records may each have a
// kilobyte of names.
const maxTold = 256 << 20

// extend adds a message's nodes to a table, and checks that this has all that the rows name.
func extend(b *rows.Batch, r *reply, table nodeTable, asked muster.Locations) (nodeTable, error) {
	switch {
	case asked == muster.NoLocations && len(r.nodes) > 0:
		return nil, corrupt("%d datanodes in a listing without locations", len(r.nodes))
	case asked == muster.NoLocations:
		return nil, nil
	case len(table)+len(r.nodes) > maxTable:
		return nil, corrupt("a table of more than %d datanodes", maxTable)
	}
	table = append(table, r.nodes...)
	if n := b.NodeBound(); n > len(table) {
		return nil, corrupt("datanode %d of a table of %d", n-1, len(table))
	}
	return table, nil
}

// nodeRecords are records of datanodes by their messages, so that all answers that tell the same
// share one, and read it once.
type nodeRecords struct {
	mu    sync.RWMutex
	known map[string]*muster.Node // guarded by mu
}

// maxRecords bounds what is kept: the datanodes of most clusters.
const maxRecords = 1 << 16

// append appends the node of a message to a table.
func (s *nodeRecords) append(table nodeTable, message []byte) (nodeTable, error) {
	s.mu.RLock()
	n := s.known[string(message)]
	s.mu.RUnlock()
	if n != nil {
		return append(table, n), nil
	}
	node, err := rpc.UnmarshalNode(message)
	if err != nil {
		return table, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = s.known[string(message)]; n == nil {
		if len(s.known) >= maxRecords || s.known == nil {
			s.known = map[string]*muster.Node{} // those that are in use come again
		}
		n = &node
		s.known[string(message)] = n
	}
	return append(table, n), nil
}
