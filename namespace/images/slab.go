package images

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"unsafe"
)

// location says where an item lies:
//
//	bit  0       referenced: read since it came there
//	bits 1..15   offset in the slab, in units of 8 bytes
//	bits 16..35  number of the slab
//	bits 36..63  generation of the slab, not 0
type location uint64

const (
	referenced location = 1
	dead       location = 1 // no generation: the item is gone

	slabShift       = 16
	generationShift = 36
	slabMask        = 1<<(generationShift-slabShift) - 1
	generationMask  = 1<<(64-generationShift) - 1
)

func (w location) live() bool         { return w > dead }
func (w location) offset() int        { return int(w&(1<<slabShift-1)&^referenced) << 2 }
func (w location) slab() uint32       { return uint32(w>>slabShift) & slabMask }
func (w location) generation() uint32 { return uint32(w >> generationShift) }

// slab holds items one behind the other, each at a multiple of 8 bytes:
//
//	key u64, since u64, length u32, unused u32, the bytes
type slab struct {
	buf        []byte // readers see below used only, which is not written again
	number     uint32
	generation uint32

	// Cache.mu guards the rest.
	used, live int    // bytes: up to where there are items; of those that are in the index
	queue      *queue // where it is, or was before it became the victim
	prev, next *slab  // in queue
}

const (
	itemHeader = 24
	slabBytes  = int64(unsafe.Sizeof(slab{}))
)

func itemSize(length int) int { return (itemHeader + length + 7) &^ 7 }

func (s *slab) at(offset int) location {
	return location(s.generation)<<generationShift | location(s.number)<<slabShift | location(offset)>>2
}

// item is the item at offset.
func (s *slab) item(offset int) (key, since uint64, item []byte) {
	b := s.buf[offset:]
	n := int(binary.LittleEndian.Uint32(b[16:]))
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), b[itemHeader : itemHeader+n : itemHeader+n]
}

func (s *slab) sizeAt(offset int) int {
	return itemSize(int(binary.LittleEndian.Uint32(s.buf[offset+16:])))
}

// add writes an item, for which there is room, behind the others.
func (s *slab) add(key, since uint64, item []byte) location {
	b := s.buf[s.used:]
	binary.LittleEndian.PutUint64(b, key)
	binary.LittleEndian.PutUint64(b[8:], since)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(item)))
	copy(b[itemHeader:], item)
	w := s.at(s.used)
	s.used += itemSize(len(item))
	s.live += itemSize(len(item))
	return w
}

// room says whether an item of this size can be added.
func (s *slab) room(size int) bool { return len(s.buf)-s.used >= size }

// slabs is the list of all slabs. Readers find a slab by its number; changes need
// Cache.mu.
type slabs struct {
	list []atomic.Pointer[slab]

	// Cache.mu guards the rest.
	size       int      // bytes of a slab
	unused     []uint32 // numbers
	generation uint32   // of the last slab made
	bytes      int64    // of all slabs
}

func newSlabs(budget int64) slabs {
	p := slabs{size: int(min(max(budget/64, minSlab), maxSlab)) &^ 7}
	// No slab but the open ones is smaller than a quarter of the usual size. Some
	// more, for those that come before others go.
	n := 4*budget/int64(p.size) + 16
	p.list = make([]atomic.Pointer[slab], min(n, slabMask+1))
	p.unused = make([]uint32, len(p.list))
	for i := range p.unused {
		p.unused[i] = uint32(len(p.list) - 1 - i)
	}
	return p
}

func (p *slabs) fixed() int64 {
	return int64(len(p.list)) * int64(unsafe.Sizeof(p.list[0])+unsafe.Sizeof(p.unused[0]))
}

// at returns the slab of a location, nil if it is gone.
func (p *slabs) at(w location) *slab {
	s := p.list[w.slab()].Load()
	if s == nil || s.generation != w.generation() {
		return nil
	}
	return s
}

// alone says whether an item of this size gets a slab of its own: so no more than a
// quarter of any slab is left over at its end.
func (p *slabs) alone(size int) bool { return size > p.size/4 }

// add makes a slab of size bytes; nil if there is no number left.
func (p *slabs) add(size int) *slab {
	last := len(p.unused) - 1
	if last < 0 {
		return nil
	}
	s := &slab{number: p.unused[last]}
	p.unused = p.unused[:last]
	p.generation = max((p.generation+1)&generationMask, 1)
	s.generation = p.generation
	buf := slices.Grow([]byte(nil), size) // the capacity is what the allocator really takes
	s.buf = buf[:cap(buf)]
	p.bytes += slabBytes + int64(len(s.buf))
	p.list[s.number].Store(s)
	return s
}

func (p *slabs) remove(s *slab) {
	p.list[s.number].Store(nil)
	p.unused = append(p.unused, s.number)
	p.bytes -= slabBytes + int64(len(s.buf))
}
