package bench

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/muster-fs/muster/listing/rows"
)

// digest says which rows an arm saw, in whatever order they came. Two arms saw the
// same rows if their digests are equal: all of rows.DefaultColumns counts, and with locations
// blocks and the hosts that have them, in no order. The zero value has seen none.
type digest struct {
	rows int
	sum  uint64
}

// add takes a row that was hashed.
func (d *digest) add(hash uint64) {
	d.rows++
	d.sum += hash
}

// plus returns the digest of the rows of both.
func (d digest) plus(o digest) digest { return digest{d.rows + o.rows, d.sum + o.sum} }

// hasher hashes rows. It is used by one goroutine.
type hasher struct {
	located bool
	hosts   func(container uint64) []string // where blocks must be, in place of where they are told to be; nil: nobody knows better
	row     []byte
}

func (h *hasher) hash(path string, b *rows.Batch, i int, p part) uint64 {
	h.row = append(append(h.row[:0], path...), 0)
	for _, text := range [...]string{b.Name(i), b.Owner(i), b.Group(i), b.LinkTarget(i)} {
		h.row = append(append(h.row, text...), 0)
	}
	for _, n := range [...]uint64{
		uint64(b.Kind(i)), uint64(b.Length(i)), uint64(b.MTime(i)), uint64(b.ATime(i)), uint64(b.Mode(i)),
		uint64(b.Replication(i)), uint64(b.BlockSize(i)), b.InodeID(i), uint64(b.Flags(i)),
	} {
		h.row = binary.LittleEndian.AppendUint64(h.row, n)
	}
	if h.located {
		for k := range max(0, b.NumBlocks(i)) {
			h.block(b, i, k, p)
		}
	}
	return xxh3.Hash(h.row)
}

// block takes a block, and where it is.
func (h *hasher) block(b *rows.Batch, i, k int, p part) {
	block := b.Block(i, k)
	for _, n := range [...]uint64{block.Container, block.LocalID, uint64(block.Length)} {
		h.row = binary.LittleEndian.AppendUint64(h.row, n)
	}
	var hosts []string
	if h.hosts != nil {
		hosts = slices.Clone(h.hosts(block.Container))
	} else {
		var known bool
		if hosts, known = p.hosts(b, i, k); !known {
			h.row = append(h.row, "unknown"...)
		}
	}
	slices.Sort(hosts)
	for _, host := range hosts {
		h.row = append(append(h.row, host...), 0)
	}
}

// digestOf returns the digest of a part's rows.
func (h *hasher) digestOf(p part) (d digest, err error) {
	b, given, err := p.decoded()
	if err != nil || b == nil {
		return d, err
	}
	for i := range b.Len() {
		d.add(h.hash(given(i), b, i, p))
	}
	return d, nil
}

// prefixes are the digests of the first directories of a table: prefixes[n] is that of the
// first n, so that an arm that lists only some is compared too.
type prefixes []digest

// addTo adds a part's rows to the digest of each row's directory. Parts and rows come in
// the order of the paths; at is the path of the row before, and of the last one after.
func (h *hasher) addTo(each []digest, paths []string, at *int, p part) error {
	b, given, err := p.decoded()
	if err != nil || b == nil {
		return err
	}
	for i := range b.Len() {
		path := given(i)
		for paths[*at] != path {
			if *at++; *at == len(paths) {
				return fmt.Errorf("a row of %s, which is not the next of the paths", path)
			}
		}
		each[*at].add(h.hash(path, b, i, p))
	}
	return nil
}

// sums returns the prefixes of the directories' digests.
func sums(each []digest) prefixes {
	all := make(prefixes, len(each)+1)
	for i, d := range each {
		all[i+1] = all[i].plus(d)
	}
	return all
}
