package namespace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/muster-fs/muster"
)

// A row is what its directory's listing shows of an inode:
//
//	version u8 | kind u8 | mode u16 | id u64 | mtime i64 | atime i64 |
//	owner length u8 | group length u8 | owner | group | then by kind
//
//	file:      flags u8 | replication u16 | length i64 | block size i64 | blocks u32 | the first 16 blocks
//	directory: nothing; mtime is 0 here and lies in the record
//	link:      target length u16 | target
//
//	block:     container u64 | local id u64 | length i64
const (
	rowVersion   = 1
	rowHead      = 30
	fileHead     = 23
	blockSize    = 24
	inlineBlocks = 16  // blocks in the row
	chunkBlocks  = 256 // blocks in a chunk but the last
	maxOwner     = 255 // bytes of a user's or group's name
)

// blockList is a row's blocks: their number, and the encoded ones that the row holds.
type blockList struct {
	count  int
	inline []byte
}

// chunks is the number of chunks past the row.
func (b blockList) chunks() int {
	if b.count <= inlineBlocks {
		return 0
	}
	return (b.count - inlineBlocks + chunkBlocks - 1) / chunkBlocks
}

// chunkLen is the number of blocks in a chunk.
func (b blockList) chunkLen(chunk int) int {
	return min(chunkBlocks, b.count-inlineBlocks-chunk*chunkBlocks)
}

func appendRow(dst []byte, r *muster.Row, b blockList) []byte {
	dst = append(dst, rowVersion, byte(r.Kind))
	dst = binary.LittleEndian.AppendUint16(dst, r.Mode)
	dst = binary.LittleEndian.AppendUint64(dst, r.ID)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.MTime))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.ATime))
	dst = append(dst, byte(len(r.Owner)), byte(len(r.Group)))
	dst = append(append(dst, r.Owner...), r.Group...)
	switch r.Kind {
	case muster.File:
		dst = append(dst, r.Flags)
		dst = binary.LittleEndian.AppendUint16(dst, uint16(r.Replication))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Length))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(r.BlockSize))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(b.count))
		dst = append(dst, b.inline...)
	case muster.Link:
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(r.Target)))
		dst = append(dst, r.Target...)
	}
	return dst
}

// decodeRow decodes v into r, whose slices then alias v. It leaves r.Name, and sets
// r.Blocks to nil. Nothing but what appendRow makes is accepted.
func decodeRow(v []byte, r *muster.Row) (blockList, error) {
	if len(v) < rowHead {
		return blockList{}, corrupt("row of %d bytes", len(v))
	}
	if v[0] != rowVersion {
		return blockList{}, corrupt("row of unknown version %d", v[0])
	}
	*r = muster.Row{
		Name:  r.Name,
		Kind:  muster.Kind(v[1]),
		Mode:  binary.LittleEndian.Uint16(v[2:]),
		ID:    binary.LittleEndian.Uint64(v[4:]),
		MTime: int64(binary.LittleEndian.Uint64(v[12:])),
		ATime: int64(binary.LittleEndian.Uint64(v[20:])),
	}
	owner, group := int(v[28]), int(v[29])
	v = v[rowHead:]
	if r.ID == 0 || r.Mode&^muster.ModeMask != 0 || owner == 0 || group == 0 || len(v) < owner+group {
		return blockList{}, corrupt("row of inode %d: bad head", r.ID)
	}
	r.Owner, r.Group, v = v[:owner:owner], v[owner:owner+group:owner+group], v[owner+group:]
	if !utf8.Valid(r.Owner) || !utf8.Valid(r.Group) {
		return blockList{}, corrupt("row of inode %d: owner or group is not UTF-8", r.ID)
	}
	switch r.Kind {
	case muster.File:
		return decodeFileRow(v, r)
	case muster.Directory:
		if len(v) != 0 || r.MTime != 0 {
			return blockList{}, corrupt("row of directory %d: bad tail", r.ID)
		}
		return blockList{}, nil
	case muster.Link:
		return blockList{}, decodeLinkRow(v, r)
	}
	return blockList{}, corrupt("row of inode %d: unknown kind %d", r.ID, r.Kind)
}

func decodeFileRow(v []byte, r *muster.Row) (blockList, error) {
	if len(v) < fileHead {
		return blockList{}, corrupt("row of file %d: too short", r.ID)
	}
	r.Flags = v[0]
	r.Replication = muster.Replication(binary.LittleEndian.Uint16(v[1:]))
	r.Length = int64(binary.LittleEndian.Uint64(v[3:]))
	r.BlockSize = int64(binary.LittleEndian.Uint64(v[11:]))
	count := binary.LittleEndian.Uint32(v[19:])
	v = v[fileHead:]
	if r.Flags&^muster.FlagWriting != 0 || !r.Replication.Valid() || r.Length < 0 || r.BlockSize < 0 || count > muster.MaxBlocks {
		return blockList{}, corrupt("row of file %d: bad attributes", r.ID)
	}
	if len(v) != min(int(count), inlineBlocks)*blockSize {
		return blockList{}, corrupt("row of file %d: %d bytes for %d blocks", r.ID, len(v), count)
	}
	return blockList{int(count), v}, nil
}

func decodeLinkRow(v []byte, r *muster.Row) error {
	if len(v) < 2 || len(v) != 2+int(binary.LittleEndian.Uint16(v)) {
		return corrupt("row of link %d: bad target length", r.ID)
	}
	r.Target = v[2:]
	if len(r.Target) == 0 || len(r.Target) > muster.MaxPathBytes || bytes.IndexByte(r.Target, 0) >= 0 || !utf8.Valid(r.Target) {
		return corrupt("row of link %d: bad target", r.ID)
	}
	return nil
}

func appendBlocks(dst []byte, blocks []muster.Block) []byte {
	for i := range blocks {
		dst = binary.LittleEndian.AppendUint64(dst, blocks[i].Container)
		dst = binary.LittleEndian.AppendUint64(dst, blocks[i].LocalID)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(blocks[i].Length))
	}
	return dst
}

// decodeBlocks appends the blocks of v, which has a whole number of them.
func decodeBlocks(dst []muster.Block, v []byte) ([]muster.Block, error) {
	for ; len(v) >= blockSize; v = v[blockSize:] {
		b := muster.Block{
			Container: binary.LittleEndian.Uint64(v),
			LocalID:   binary.LittleEndian.Uint64(v[8:]),
			Length:    int64(binary.LittleEndian.Uint64(v[16:])),
		}
		if b.Length < 0 {
			return dst, corrupt("block of negative length")
		}
		dst = append(dst, b)
	}
	return dst, nil
}

// A chunk holds blocks past those in the row:
//
//	version u8 | blocks
const chunkVersion = 1

func appendChunk(dst []byte, blocks []muster.Block) []byte {
	return appendBlocks(append(dst, chunkVersion), blocks)
}

// decodeChunk appends the blocks of a chunk that must have n of them.
func decodeChunk(dst []muster.Block, v []byte, n int) ([]muster.Block, error) {
	if err := checkChunk(v, n); err != nil {
		return dst, err
	}
	return decodeBlocks(dst, v[1:])
}

// checkChunk checks what is around the blocks of a chunk that must have n of them.
func checkChunk(v []byte, n int) error {
	if len(v) != 1+n*blockSize {
		return corrupt("chunk of %d bytes for %d blocks", len(v), n)
	}
	if v[0] != chunkVersion {
		return corrupt("chunk of unknown version %d", v[0])
	}
	return nil
}

// nameOK says whether the name of a stored key can be one.
func nameOK(name []byte) bool {
	switch {
	case len(name) == 0 || len(name) > muster.MaxNameBytes:
		return false
	case name[0] == '.' && (len(name) == 1 || len(name) == 2 && name[1] == '.'):
		return false
	}
	return bytes.IndexByte(name, '/') < 0 && bytes.IndexByte(name, 0) < 0 && utf8.Valid(name)
}

// checkOwner checks the name of a user or group.
func checkOwner(what, s string) error {
	switch {
	case s == "" || len(s) > maxOwner:
		return fmt.Errorf("%w: %s %.64q has %d bytes; from 1 to %d", muster.ErrInvalid, what, s, len(s), maxOwner)
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: %s %q is not valid UTF-8", muster.ErrInvalid, what, s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%w: %s %q has a control character", muster.ErrInvalid, what, s)
	}
	return nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{muster.ErrCorrupt}, args...)...)
}
