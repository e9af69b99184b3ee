package store

import (
	"encoding/binary"
	"fmt"

	"github.com/muster-fs/muster"
)

// The first byte of a key says what it holds. Numbers in keys are big-endian, so that keys sort
// as their numbers do; in values they are little-endian. Times are milliseconds since the epoch,
// from 0. A value ends where its last field does.
//
//	'b' container u64, local id u64             a block
//	'c' container u64                           a container that has, or had, blocks
//	'd' container u64, local id u64, chunk u32  checksums of the block's chunk, counted from 0
//	's'                                         scrubbing of this disk
//	't' container u64, local id u64             tombstone of a block
const (
	tagBlock     = 'b'
	tagContainer = 'c'
	tagChunk     = 'd'
	tagScrub     = 's'
	tagTombstone = 't'
)

func blockKey(id muster.BlockID) []byte { return appendID([]byte{tagBlock}, id) }

func tombstoneKey(id muster.BlockID) []byte { return appendID([]byte{tagTombstone}, id) }

func chunkKey(id muster.BlockID, chunk uint32) []byte {
	return binary.BigEndian.AppendUint32(appendID([]byte{tagChunk}, id), chunk)
}

func containerKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{tagContainer}, id) }

func scrubKey() []byte { return []byte{tagScrub} }

func appendID(dst []byte, id muster.BlockID) []byte {
	dst = binary.BigEndian.AppendUint64(dst, id.Container)
	return binary.BigEndian.AppendUint64(dst, id.LocalID)
}

// prefixes returns the bounds of the keys of a tag and a container.
func prefixes(tag byte, container uint64) (from, to []byte) {
	from = binary.BigEndian.AppendUint64([]byte{tag}, container)
	return from, successor(from)
}

// successor returns the first key that does not begin with prefix.
func successor(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; ; i-- { // the tag is not 255
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
}

// idIn returns the id in a key of a block, chunk, or tombstone.
func idIn(key []byte) (muster.BlockID, error) {
	if len(key) < 17 {
		return muster.BlockID{}, corrupt("a key of %d bytes", len(key))
	}
	return muster.BlockID{Container: binary.BigEndian.Uint64(key[1:]), LocalID: binary.BigEndian.Uint64(key[9:])}, nil
}

// A block's record, of 34 bytes:
//
//	 0 version u8   1
//	 1 flags   u8   1 committed, 2 damaged; damaged only if committed
//	 2 file    u64  inode id, not 0
//	10 length  u64  durable bytes, at most 4 GiB
//	18 created i64  ms
//	26 touched i64  ms
const (
	blockVersion  = 1
	blockSize     = 34
	flagCommitted = 1
	flagDamaged   = 2
)

type blockRecord struct {
	committed, damaged bool
	file               uint64
	length             int64
	created, touched   int64 // ms
}

func appendBlock(dst []byte, r blockRecord) []byte {
	flags := byte(0)
	if r.committed {
		flags |= flagCommitted
	}
	if r.damaged {
		flags |= flagDamaged
	}
	dst = append(dst, blockVersion, flags)
	for _, n := range [...]uint64{r.file, uint64(r.length), uint64(r.created), uint64(r.touched)} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}

func decodeBlock(v []byte) (blockRecord, error) {
	if len(v) != blockSize || v[0] != blockVersion {
		return blockRecord{}, corrupt("block record of %d bytes: unknown version or length", len(v))
	}
	flags := v[1]
	r := blockRecord{
		committed: flags&flagCommitted != 0, damaged: flags&flagDamaged != 0,
		file:    binary.LittleEndian.Uint64(v[2:]),
		length:  int64(binary.LittleEndian.Uint64(v[10:])),
		created: int64(binary.LittleEndian.Uint64(v[18:])),
		touched: int64(binary.LittleEndian.Uint64(v[26:])),
	}
	switch {
	case flags&^(flagCommitted|flagDamaged) != 0, r.damaged && !r.committed:
		return blockRecord{}, corrupt("block record with flags %#x", flags)
	case r.file == 0, r.length < 0, r.length > muster.MaxBlockSize, r.created < 0, r.touched < 0:
		return blockRecord{}, corrupt("block record of file %d, length %d, times %d and %d", r.file, r.length, r.created, r.touched)
	}
	return r, nil
}

// A chunk's record:
//
//	0 version u8    1
//	1 length  u32   bytes of the chunk's data, from 1 to 4 MiB
//	5 sums    u32 each  CRC-32C of each 16 KiB of the data, the last of what is left
const (
	chunkVersion = 1
	chunkHead    = 5
)

func appendChunk(dst []byte, length int, sums []byte) []byte {
	dst = append(dst, chunkVersion)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(length))
	return append(dst, sums...)
}

// decodeChunk returns the length of a chunk and the part of v with its checksums.
func decodeChunk(v []byte) (length int, sums []byte, err error) {
	if len(v) < chunkHead || v[0] != chunkVersion {
		return 0, nil, corrupt("chunk record of %d bytes: unknown version or length", len(v))
	}
	n := int64(binary.LittleEndian.Uint32(v[1:]))
	if n < 1 || n > muster.ChunkBytes || int64(len(v)-chunkHead) != sumBytes(n) {
		return 0, nil, corrupt("chunk record of %d bytes for %d bytes of data", len(v), n)
	}
	return int(n), v[chunkHead:], nil
}

// A container's record, of 10 bytes:
//
//	0 version u8   1
//	1 flags   u8   1 closed
//	2 created i64  ms
const (
	containerVersion = 1
	containerSize    = 10
	flagClosed       = 1
)

type containerRecord struct {
	closed  bool
	created int64 // ms
}

func appendContainer(dst []byte, r containerRecord) []byte {
	flags := byte(0)
	if r.closed {
		flags = flagClosed
	}
	return binary.LittleEndian.AppendUint64(append(dst, containerVersion, flags), uint64(r.created))
}

func decodeContainer(v []byte) (containerRecord, error) {
	if len(v) != containerSize || v[0] != containerVersion || v[1]&^flagClosed != 0 {
		return containerRecord{}, corrupt("container record of %d bytes: unknown version, flags, or length", len(v))
	}
	r := containerRecord{closed: v[1] == flagClosed, created: int64(binary.LittleEndian.Uint64(v[2:]))}
	if r.created < 0 {
		return containerRecord{}, corrupt("container record of time %d", r.created)
	}
	return r, nil
}

// A tombstone, of 9 bytes:
//
//	0 version u8   1
//	1 deleted i64  ms
const (
	tombstoneVersion = 1
	tombstoneSize    = 9
)

func appendTombstone(dst []byte, deleted int64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, tombstoneVersion), uint64(deleted))
}

func decodeTombstone(v []byte) (deleted int64, err error) {
	if len(v) != tombstoneSize || v[0] != tombstoneVersion {
		return 0, corrupt("tombstone of %d bytes: unknown version or length", len(v))
	}
	if deleted = int64(binary.LittleEndian.Uint64(v[1:])); deleted < 0 {
		return 0, corrupt("tombstone of time %d", deleted)
	}
	return deleted, nil
}

// The record of scrubbing, of 41 bytes:
//
//	 0 version  u8   1
//	 1 since    i64  ms; the next run is due Options.ScrubEvery after it
//	 9 finished i64  ms; end of the last run, 0: never
//	17 blocks   u64  of the last run
//	25 bytes    u64
//	33 damaged  u64
const (
	scrubVersion = 1
	scrubSize    = 41
)

type scrubRecord struct {
	since, finished        int64 // ms
	blocks, bytes, damaged uint64
}

func appendScrub(dst []byte, r scrubRecord) []byte {
	dst = append(dst, scrubVersion)
	for _, n := range [...]uint64{uint64(r.since), uint64(r.finished), r.blocks, r.bytes, r.damaged} {
		dst = binary.LittleEndian.AppendUint64(dst, n)
	}
	return dst
}

func decodeScrub(v []byte) (scrubRecord, error) {
	if len(v) != scrubSize || v[0] != scrubVersion {
		return scrubRecord{}, corrupt("scrub record of %d bytes: unknown version or length", len(v))
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(v[1+8*i:]) }
	r := scrubRecord{since: int64(at(0)), finished: int64(at(1)), blocks: at(2), bytes: at(3), damaged: at(4)}
	if r.since < 0 || r.finished < 0 {
		return scrubRecord{}, corrupt("scrub record of times %d and %d", r.since, r.finished)
	}
	return r, nil
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{muster.ErrCorrupt}, args...)...)
}
