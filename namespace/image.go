package namespace

import (
	"encoding/binary"

	"github.com/muster-fs/muster"
)

// An item of the image cache under the id of a directory begins with what it is:
//
//	itemOne:    row
//	itemMany:   count u32 | where each row ends u32 x count | rows
//	itemRanges: see ranges
//
//	row:        name length u8 | name | row as the store has it
//
// Ends count from the first row's beginning. What is in an image was checked when it was
// loaded, so that nothing needs checking when it is served.
const (
	itemOne    = 1
	itemMany   = 2
	itemRanges = 3
)

// The bounds of an image. A larger directory is held in ranges.
const (
	imageRows   = 1024
	rowImageMax = 64 // bytes a row, taken together
)

// image is the rows of a directory, or of a range of its names, in order. It never changes.
type image struct {
	rows []byte
	ends []byte // 4 bytes a row; empty if there is one row
	n    int
}

// open makes m what an item that is itemOne or itemMany has. It sets field by field, since this is
// done for each directory listed, and a processor stalls on a struct that was just put together.
func (m *image) open(item []byte) {
	if item[0] == itemOne {
		m.rows, m.ends, m.n = item[1:], nil, 1
		return
	}
	n := int(binary.LittleEndian.Uint32(item[1:]))
	m.rows, m.ends, m.n = item[5+4*n:], item[5:5+4*n], n
}

// row returns the i-th name and row.
func (m *image) row(i int) (name, row []byte) {
	b := m.rows
	if len(m.ends) != 0 {
		from := uint32(0)
		if i > 0 {
			from = binary.LittleEndian.Uint32(m.ends[4*i-4:])
		}
		b = b[from:binary.LittleEndian.Uint32(m.ends[4*i:])]
	}
	n := 1 + int(b[0])
	return b[1:n:n], b[n:]
}

func (m *image) name(i int) []byte {
	b := m.rows
	if i > 0 {
		b = b[binary.LittleEndian.Uint32(m.ends[4*i-4:]):]
	}
	return b[1 : 1+int(b[0])]
}

// farthest is how far from a hint a name is looked for before it is looked for anywhere.
const farthest = 8

// find returns the place of the first name that is not before a given one, and whether it is
// that name. It looks around the hint first.
func (m *image) find(name string, hint int) (at int, ok bool) {
	lo, hi := 0, m.n // names before lo are before name, those from hi on are not
	if hint < m.n {
		at := m.name(hint)
		switch {
		case string(at) == name:
			return hint, true
		case string(at) > name:
			hi = hint
		default:
			lo = hint + 1
			for step := 1; step <= farthest && lo+step <= hi; step *= 2 {
				probe := lo + step - 1
				if string(m.name(probe)) >= name {
					hi = probe
					break
				}
				lo = probe + 1
			}
		}
	}
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if string(m.name(mid)) < name {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < m.n && string(m.name(lo)) == name
}

// packer packs rows into an image.
type packer struct {
	rows []byte
	ends []uint32
}

func (p *packer) reset() { p.rows, p.ends = p.rows[:0], p.ends[:0] }

func (p *packer) add(name, row []byte) {
	p.rows = append(append(append(p.rows, byte(len(name))), name...), row...)
	p.ends = append(p.ends, uint32(len(p.rows)))
}

// full says whether so many rows, or the bytes that go with them, are there.
func (p *packer) full(rows int) bool { return len(p.ends) >= rows || len(p.rows) >= rows*rowImageMax }

// name is the name of the i-th row.
func (p *packer) name(i int) []byte {
	b := p.rows
	if i > 0 {
		b = b[p.ends[i-1]:]
	}
	return b[1 : 1+int(b[0])]
}

// cut drops rows until it is not more than full, and returns the name of the first that it dropped.
func (p *packer) cut(rows int) (name []byte) {
	n := len(p.ends)
	for ; n > 1 && (n > rows || int(p.ends[n-1]) > rows*rowImageMax); n-- {
		name = p.name(n - 1)
	}
	p.rows, p.ends = p.rows[:p.ends[n-1]], p.ends[:n]
	return name
}

// appendItem appends the image.
func (p *packer) appendItem(dst []byte) []byte {
	if len(p.ends) == 1 {
		return append(append(dst, itemOne), p.rows...)
	}
	dst = append(dst, itemMany)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(p.ends)))
	for _, end := range p.ends {
		dst = binary.LittleEndian.AppendUint32(dst, end)
	}
	return append(dst, p.rows...)
}

// checkRow checks all that decoding a row and its blocks checks.
func checkRow(v []byte, r *muster.Row) error {
	b, err := decodeRow(v, r)
	for v := b.inline; err == nil && len(v) >= blockSize; v = v[blockSize:] {
		if int64(binary.LittleEndian.Uint64(v[16:])) < 0 {
			err = corrupt("block of negative length")
		}
	}
	return err
}

// rowID, rowKind and rowRights return some of a row that was checked.
func rowID(v []byte) uint64 { return binary.LittleEndian.Uint64(v[4:]) }

func rowKind(v []byte) muster.Kind { return muster.Kind(v[1]) }

func rowRights(v []byte) (mode uint16, owner, group []byte) {
	end := rowHead + int(v[28])
	return binary.LittleEndian.Uint16(v[2:]), v[rowHead:end], v[end : end+int(v[29])]
}

// unpackRow is decodeRow for a row that was checked.
func unpackRow(v []byte, r *muster.Row) (b blockList) {
	owner := rowHead + int(v[28])
	group := owner + int(v[29])
	r.Kind = muster.Kind(v[1])
	r.Mode = binary.LittleEndian.Uint16(v[2:])
	r.ID = binary.LittleEndian.Uint64(v[4:])
	r.MTime = int64(binary.LittleEndian.Uint64(v[12:]))
	r.ATime = int64(binary.LittleEndian.Uint64(v[20:]))
	r.Owner = v[rowHead:owner:owner]
	r.Group = v[owner:group:group]
	r.Target, r.Blocks = nil, nil
	v = v[group:]
	if r.Kind == muster.File {
		_ = v[fileHead-1]
		r.Flags = v[0]
		r.Replication = muster.Replication(binary.LittleEndian.Uint16(v[1:]))
		r.Length = int64(binary.LittleEndian.Uint64(v[3:]))
		r.BlockSize = int64(binary.LittleEndian.Uint64(v[11:]))
		return blockList{int(binary.LittleEndian.Uint32(v[19:])), v[fileHead:]}
	}
	r.Flags, r.Replication, r.Length, r.BlockSize = 0, 0, 0, 0
	if r.Kind == muster.Link {
		r.Target = v[2:]
	}
	return blockList{}
}
