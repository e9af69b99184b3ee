package listing

import "github.com/muster-fs/muster"

// nodeTable is the table of nodes of a call, as far as the server needs it: the position of
// each node, and what is to be sent yet. A node is sent once, and again if its record has
// changed. One goroutine uses it.
type nodeTable struct {
	at    []tableEntry        // by number
	used  []muster.NodeNumber // whose entries are not zero
	page  uint32              // counts pages
	next  uint32              // position
	added []muster.Node       // not yet sent
	size  int                 // upper bound of what they take in messages
	most  int                 // bound of size; 0: none

	refused bool // there was no room for a node
}

type tableEntry struct {
	record *muster.Node // that was sent or is among those added
	place  uint64       // its position, below what the page's replicas are sorted by
	page   uint32       // in which the record was looked up last; 0: none
}

func (e *tableEntry) position() uint32 { return uint32(e.place) }

// nodeBytes is an upper bound of what a node takes in a message beside its texts.
const nodeBytes = 40

func (t *nodeTable) reset() {
	for _, n := range t.used {
		t.at[n] = tableEntry{}
	}
	clear(t.added)
	t.used, t.added, t.next, t.page, t.size, t.most, t.refused = t.used[:0], t.added[:0], 0, 0, 0, 0, false
}

// find returns the entry of a node that was looked up in this page, else nil.
func (t *nodeTable) find(n muster.NodeNumber) *tableEntry {
	if int64(n) >= int64(len(t.at)) || t.at[n].page != t.page {
		return nil
	}
	return &t.at[n]
}

// lookUp returns the entry of a node, whose record is the newest now; nil if nobody knows the
// node, or there is no room for it.
func (t *nodeTable) lookUp(n muster.NodeNumber, of Places) *tableEntry {
	if int64(n) >= int64(len(t.at)) {
		if n >= muster.MaxNodes {
			return nil
		}
		t.at = append(t.at, make([]tableEntry, max(int(n)+1, 2*len(t.at))-len(t.at))...)
	}
	e := &t.at[n]
	record := of.Node(n)
	if record == nil {
		return nil
	}
	if e.record != record {
		size := sizeOf(record)
		if t.most > 0 && t.size+size > t.most {
			t.refused = true
			return nil
		}
		if e.record == nil {
			t.used = append(t.used, n)
		}
		e.record, e.place = record, uint64(t.next)
		t.next++
		t.added = append(t.added, *record)
		t.size += size
	}
	e.page = t.page
	return e
}

func sizeOf(n *muster.Node) int {
	return nodeBytes + len(n.ID) + len(n.Host) + len(n.Address) + len(n.Rack)
}

// nodesBytes bounds the nodes that go with rows, and those of a message of their own.
const nodesBytes = 64 << 10

// take moves as many of the nodes as go into a message to dst.
func (t *nodeTable) take(dst []muster.Node) []muster.Node {
	bytes, n := 0, 0
	for n < len(t.added) {
		size := sizeOf(&t.added[n])
		if n > 0 && bytes+size > nodesBytes {
			break
		}
		bytes += size
		n++
	}
	dst = append(dst, t.added[:n]...)
	rest := copy(t.added, t.added[n:])
	clear(t.added[rest:])
	t.added = t.added[:rest]
	t.size -= bytes
	return dst
}
