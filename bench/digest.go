package bench

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/muster-fs/muster/client"
)

// Digest says which rows an arm saw, in whatever order they came. Two arms saw the
// same rows if their digests are equal: all of rows.DefaultColumns counts. The zero value
// has seen none.
type Digest struct {
	Rows int
	sum  uint64
	row  []byte
}

// Add takes the rows of a batch. It returns the first failure among its outcomes: an
// experiment lists nothing that may fail.
func (d *Digest) Add(b *client.Batch) error {
	for _, o := range b.Outcomes {
		if err := o.Err(); err != nil {
			return err
		}
	}
	for i := range b.Len() {
		d.row = b.AppendPath(d.row[:0], i)
		d.row = append(append(append(d.row, 0), b.Owner(i)...), 0)
		d.row = append(append(append(d.row, b.Group(i)...), 0), b.LinkTarget(i)...)
		for _, n := range [...]uint64{
			uint64(b.Kind(i)), uint64(b.Length(i)), uint64(b.MTime(i)), uint64(b.ATime(i)), uint64(b.Mode(i)),
			uint64(b.Replication(i)), uint64(b.BlockSize(i)), b.InodeID(i), uint64(b.Flags(i)),
		} {
			d.row = binary.LittleEndian.AppendUint64(d.row, n)
		}
		d.sum += xxh3.Hash(d.row)
		d.Rows++
	}
	return nil
}

// Equal says whether both saw the same rows.
func (d *Digest) Equal(other *Digest) bool { return d.Rows == other.Rows && d.sum == other.sum }
