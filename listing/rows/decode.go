package rows

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
	"unsafe"

	"github.com/muster-fs/muster"
)

// Decode checks a frame of the columns c.Normal() and returns a view of it. No bytes
// at all are a batch of no rows.
//
// It takes ownership of the frame: the batch, its strings and its records alias it.
// It checks all that an accessor, a record or a reader of it relies on: checksum,
// bounds, the message's metadata, offsets, nulls, kinds, replications, signs of lengths,
// UTF-8, and that a name is one component, so that joining it to a path stays below
// that path. Bytes that fail are muster.ErrCorrupt; it never panics, and allocates a
// batch, and a copy of the frame if that does not lie on an 8-byte boundary.
func Decode(frame []byte, c Columns) (*Batch, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.Normal()
	t := templateOf(c)
	b := &Batch{columns: c, template: t}
	if len(frame) == 0 {
		return b, nil
	}
	rows, head, body, err := open(frame, c)
	if err != nil {
		return nil, err
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(body)))%8 != 0 {
		body = bytes.Clone(body)
	}
	b.counts.rows = rows
	if err := b.cut(head, body); err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	return b, nil
}

// cut checks the message's head and cuts the body into the buffers.
//
// The counts of the frame decide where every buffer lies and what every other byte of
// the head must be. So the counts are read, bounded, filled into the template, and
// the result is compared with the head that came.
func (b *Batch) cut(head, body []byte) error {
	t := b.template
	if len(head) != len(t.head) {
		return corrupt("metadata of %d bytes, want %d", len(head), len(t.head))
	}
	var l lengths
	if err := b.readCounts(head, len(body), &l); err != nil {
		return err
	}
	var scratch [maxHead]byte
	want := scratch[:copy(scratch[:], t.head)]
	if n := t.patch(want, b.counts, &l); n != len(body) {
		return corrupt("body of %d bytes, its counts make %d", len(body), n)
	}
	if !bytes.Equal(head, want) {
		return corrupt("metadata differs from that of its schema and counts")
	}
	for _, s := range t.buffers {
		if s != absent {
			b.buffers[s] = body[:l[s]:l[s]]
			body = body[padded(l[s]):]
		}
	}
	return nil
}

// readCounts reads the number of blocks and nodes and the lengths of texts, none above
// limit, and computes all lengths.
func (b *Batch) readCounts(head []byte, limit int, l *lengths) error {
	read := func(at int, n *int, what string) error {
		v := binary.LittleEndian.Uint64(head[at:])
		if v > uint64(limit) {
			return corrupt("%d %s in a body of %d bytes", v, what, limit)
		}
		*n = int(v)
		return nil
	}
	t, n := b.template, &b.counts
	if t.blocksAt > 0 {
		lists, nodes := t.listsAt, t.listsAt+nodeBytes
		err := cmp.Or(read(t.blocksAt, &n.blocks, "blocks"), read(lists+8, &n.unknown, "unknown blocks"),
			read(nodes, &n.nodes, "nodes"), read(nodes+8, &n.absent, "absent nodes"))
		if err != nil {
			return err
		}
		if n.unknown > n.blocks || n.absent > n.nodes {
			return corrupt("%d of %d blocks are unknown, %d of %d nodes absent", n.unknown, n.blocks, n.absent, n.nodes)
		}
	}
	l.setCounts(*n)
	for k, s := range textSlots {
		if at := t.textAt[k]; at > 0 {
			if err := read(at, &l[s], "bytes of text"); err != nil {
				return err
			}
		}
	}
	return nil
}

// check checks what the buffers hold. Buffers of columns that are not in the set are
// empty and pass.
func (b *Batch) check() error {
	for _, s := range textSlots {
		if err := checkText(s, b.buffers[s-1], b.buffers[s]); err != nil {
			return err
		}
	}
	if err := b.checkNames(); err != nil {
		return err
	}
	for row, kind := range b.buffers[slotKind] {
		if k := muster.Kind(kind); k != muster.File && k != muster.Directory && k != muster.Link {
			return corrupt("unknown kind %d in row %d", kind, row)
		}
	}
	if err := checkReplications(b.buffers[slotReplication]); err != nil {
		return err
	}
	for _, s := range [...]slot{slotLength, slotBlockSize, slotBlockOffset, slotBlockLength} {
		if err := checkSigns(s, b.buffers[s]); err != nil {
			return err
		}
	}
	return b.checkBlocks()
}

// checkText checks that the offsets cut the text into valid UTF-8: the whole is valid
// and no offset lies inside a character.
func checkText(s slot, offsets, text []byte) error {
	if offsets == nil {
		return nil
	}
	if isASCII(text) {
		return checkOffsets(s, offsets, len(text))
	}
	if !utf8.Valid(text) {
		return corrupt("%s: invalid UTF-8", s.column())
	}
	if err := checkOffsets(s, offsets, len(text)); err != nil {
		return err
	}
	for ; len(offsets) >= 4; offsets = offsets[4:] {
		at := int(binary.LittleEndian.Uint32(offsets))
		if at < len(text) && !utf8.RuneStart(text[at]) {
			return corrupt("%s: offset %d lies inside a character", s.column(), at)
		}
	}
	return nil
}

// isASCII says whether text has no byte above 0x7f; most has none.
func isASCII(text []byte) bool {
	var all uint64
	le := binary.LittleEndian
	for ; len(text) >= 32; text = text[32:] {
		all |= le.Uint64(text) | le.Uint64(text[8:]) | le.Uint64(text[16:]) | le.Uint64(text[24:])
	}
	for _, c := range text {
		all |= uint64(c)
	}
	return all&0x8080808080808080 == 0
}

// checkOffsets checks that offsets begin at 0, never fall, and end at limit.
func checkOffsets(s slot, offsets []byte, limit int) error {
	if first := binary.LittleEndian.Uint32(offsets); first != 0 {
		return corrupt("%s: first offset is %d, want 0", s.column(), first)
	}
	last, falls := uint64(0), uint64(0)
	for rest := offsets; len(rest) >= 4; rest = rest[4:] {
		at := uint64(binary.LittleEndian.Uint32(rest))
		falls |= at - last // its sign: set for good once one is less than the one before
		last = at
	}
	if int64(falls) < 0 {
		return corrupt("%s: %s", s.column(), describeFall(offsets))
	}
	if last != uint64(limit) {
		return corrupt("%s: offsets end at %d, want %d", s.column(), last, limit)
	}
	return nil
}

// describeFall describes the first offset that is less than the one before.
func describeFall(offsets []byte) string {
	last := uint32(0)
	for ; len(offsets) >= 4; offsets = offsets[4:] {
		at := binary.LittleEndian.Uint32(offsets)
		if at < last {
			return fmt.Sprintf("offset %d after %d", at, last)
		}
		last = at
	}
	return "no offset falls"
}

// checkNames checks that joining a name to a path gives that path or a child of it.
func (b *Batch) checkNames() error {
	// Most names need no look of their own.
	all := b.buffers[slotName]
	look := bytes.IndexByte(all, '/') >= 0 || bytes.IndexByte(all, 0) >= 0
	last := uint32(0)
	for row, ends := 0, b.buffers[slotNameOffsets][4:]; len(ends) >= 4; row, ends = row+1, ends[4:] {
		end := binary.LittleEndian.Uint32(ends)
		n := end - last
		last = end
		if n == 0 || !look && n > uint32(len("..")) && n <= muster.MaxNameBytes {
			continue
		}
		if err := muster.CheckName(b.Name(row)); err != nil {
			return corrupt("row %d: %v", row, err)
		}
	}
	return nil
}

func checkReplications(values []byte) error {
	known := muster.Replication(0) // most rows have that of the row before
	for ; len(values) >= 2; values = values[2:] {
		r := muster.Replication(binary.LittleEndian.Uint16(values))
		if r != known && !r.Valid() {
			return corrupt("unknown replication %#x", uint16(r))
		}
		known = r
	}
	return nil
}

func checkSigns(s slot, values []byte) error {
	signs := uint64(0)
	for rest := values; len(rest) >= 8; rest = rest[8:] {
		signs |= binary.LittleEndian.Uint64(rest)
	}
	if int64(signs) >= 0 {
		return nil
	}
	for ; len(values) >= 8; values = values[8:] {
		if v := int64(binary.LittleEndian.Uint64(values)); v < 0 {
			return corrupt("%s: %d is negative", s.column(), v)
		}
	}
	return nil
}

// checkBlocks checks the lists of blocks and of their nodes.
func (b *Batch) checkBlocks() error {
	if !b.columns.Has(ColBlocks) {
		return nil
	}
	if err := checkOffsets(slotBlocksOffsets, b.buffers[slotBlocksOffsets], b.counts.blocks); err != nil {
		return err
	}
	if err := checkOffsets(slotNodesOffsets, b.buffers[slotNodesOffsets], b.counts.nodes); err != nil {
		return err
	}
	n := b.counts
	if got := nulls(b.buffers[slotNodesValidity], n.blocks); n.unknown > 0 && got != n.unknown {
		return corrupt("%s: %d lists of nodes are null, want %d", slotNodesValidity.column(), got, n.unknown)
	}
	if got := nulls(b.buffers[slotNodeValidity], n.nodes); n.absent > 0 && got != n.absent {
		return corrupt("%s: %d nodes are null, want %d", slotNodeValidity.column(), got, n.absent)
	}
	if n.unknown > 0 && n.nodes > 0 {
		for at := range n.blocks {
			if !b.located(at) && b.uint32(slotNodesOffsets, at) != b.uint32(slotNodesOffsets, at+1) {
				return corrupt("%s: nodes in a list that is null", slotNodesValidity.column())
			}
		}
	}
	b.boundNodes()
	return nil
}

// nulls counts the bits that are not set among the first n.
func nulls(valid []byte, n int) int {
	if len(valid) == 0 {
		return 0
	}
	set, le := 0, binary.LittleEndian
	for whole := n / 64; whole > 0; whole-- {
		set += bits.OnesCount64(le.Uint64(valid))
		valid = valid[8:]
	}
	if rest := n % 64; rest > 0 {
		set += bits.OnesCount64(le.Uint64(valid) & (1<<rest - 1))
	}
	return n - set
}

// boundNodes finds the largest position of a node.
func (b *Batch) boundNodes() {
	most := -1
	if b.counts.absent == 0 {
		for nodes := b.buffers[slotNode]; len(nodes) >= 4; nodes = nodes[4:] {
			most = max(most, int(binary.LittleEndian.Uint32(nodes)))
		}
	} else {
		for i := range b.counts.nodes {
			if bit(b.buffers[slotNodeValidity], i) {
				most = max(most, int(b.uint32(slotNode, i)))
			}
		}
	}
	b.nodeBound = most + 1
}
