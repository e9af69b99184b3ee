package namespace

import "encoding/binary"

// ranges says in which ranges of names a large directory is held:
//
//	itemRanges u8 | count u32 | key of each range's image u64 x count |
//	where each name ends u32 x (count - 1) | names
//
// The i-th name is the first that may be in range i + 1. A key of 0 is that of a range that
// was never loaded. Whatever changes in the directory, it stays true: it only parts names.
type ranges []byte

func (d ranges) count() int { return int(binary.LittleEndian.Uint32(d[1:])) }

func (d ranges) key(i int) uint64 { return binary.LittleEndian.Uint64(d[5+8*i:]) }

// low is the first name that may be in range i; that of the first is empty.
func (d ranges) low(i int) []byte {
	if i == 0 {
		return nil
	}
	n := d.count()
	ends, names, from := d[5+8*n:], d[5+8*n+4*(n-1):], uint32(0)
	if i > 1 {
		from = binary.LittleEndian.Uint32(ends[4*(i-2):])
	}
	return names[from:binary.LittleEndian.Uint32(ends[4*(i-1):])]
}

// bounds returns the first name that may be in range i, and the first that is past it; nil is
// none.
func (d ranges) bounds(i int) (low, high []byte) {
	if low = d.low(i); i+1 < d.count() {
		high = d.low(i + 1)
	}
	return low, high
}

// find returns the range in which a name is.
func (d ranges) find(name string) int {
	lo, hi := 0, d.count() // ranges up to lo begin at the name or before, those from hi on after it
	for lo+1 < hi {
		mid := int(uint(lo+hi) / 2)
		if string(d.low(mid)) <= name {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// part is a range that is being changed.
type part struct {
	key uint64
	low []byte
}

// parts appends the ranges; of no ranges, one that was never loaded.
func (d ranges) parts(dst []part) []part {
	if d == nil {
		return append(dst, part{})
	}
	for i := range d.count() {
		dst = append(dst, part{d.key(i), d.low(i)})
	}
	return dst
}

// maxRanges is how many bytes say how a directory is parted. One that needs more, which is one of
// 10,000,000 names or of very long ones, begins anew: all of this is written again for each range that
// is loaded.
const maxRanges = 1 << 20

// splitPart appends the parts, of which a new one, of the names from its low up to high, takes its
// piece of the i-th.
func splitPart(dst, parts []part, i int, p part, high []byte) []part {
	var end []byte
	if i+1 < len(parts) {
		end = parts[i+1].low
	}
	dst = append(dst, parts[:i]...)
	if low := parts[i].low; string(low) != string(p.low) {
		dst = append(dst, part{0, low})
	}
	dst = append(dst, p)
	if string(high) != string(end) {
		dst = append(dst, part{0, high})
	}
	return append(dst, parts[i+1:]...)
}

func appendRanges(dst []byte, parts []part) []byte {
	dst = append(dst, itemRanges)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(parts)))
	for _, p := range parts {
		dst = binary.LittleEndian.AppendUint64(dst, p.key)
	}
	end := uint32(0)
	for _, p := range parts[1:] {
		end += uint32(len(p.low))
		dst = binary.LittleEndian.AppendUint32(dst, end)
	}
	for _, p := range parts[1:] {
		dst = append(dst, p.low...)
	}
	return dst
}
