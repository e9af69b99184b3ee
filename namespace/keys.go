package namespace

import (
	"encoding/binary"

	"github.com/muster-fs/muster"
)

// The first byte of a key says what it holds. Numbers in keys are big-endian, so that
// keys sort as their numbers do; numbers in values are little-endian. docs/formats.md
// has the table.
const (
	tagChunk   = 'c' // file id, chunk number -> blocks past those in the row
	tagDelete  = 'd' // container, local id of a block that no file has any more -> nothing
	tagExpiry  = 'e' // txid -> request id, in the order in which results expire
	tagRecord  = 'i' // inode id -> record
	tagMeta    = 'm' // the tree's counters
	tagQueue   = 'q' // id of a detached directory -> progress of its reclaim
	tagRow     = 'r' // parent id, name -> row
	tagRequest = 'u' // request id -> result
	tagWriting = 'w' // id of a file being written -> who writes it
	tagDropped = 'x' // id of a file that is gone -> how much of its chunks is in the queue of blocks
)

// rootID is the root's inode id. Its row lies under parent 0 with an empty name.
const rootID = 1

const (
	idKeyLen      = 1 + 8
	requestKeyLen = 1 + 16 + 8
	deleteKeyLen  = 1 + 8 + 8
)

// metaKey is the key of the tree's counters.
func metaKey() []byte { return []byte{tagMeta} }

func appendIDKey(dst []byte, tag byte, id uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, tag), id)
}

func appendRowKey(dst []byte, parent uint64, name string) []byte {
	return append(appendIDKey(dst, tagRow, parent), name...)
}

func appendChunkKey(dst []byte, file uint64, chunk int) []byte {
	return binary.BigEndian.AppendUint32(appendIDKey(dst, tagChunk, file), uint32(chunk))
}

func appendRequestKey(dst []byte, client *[16]byte, sequence uint64) []byte {
	return binary.BigEndian.AppendUint64(append(append(dst, tagRequest), client[:]...), sequence)
}

func appendDeleteKey(dst []byte, b muster.BlockID) []byte {
	return binary.BigEndian.AppendUint64(appendIDKey(dst, tagDelete, b.Container), b.LocalID)
}

// splitDeleteKey reads the key of a block to be deleted.
func splitDeleteKey(key []byte) (b muster.BlockID, ok bool) {
	if len(key) != deleteKeyLen {
		return b, false
	}
	b = muster.BlockID{Container: binary.BigEndian.Uint64(key[1:]), LocalID: binary.BigEndian.Uint64(key[9:])}
	return b, isBlock(b)
}

// isBlock says whether a datanode can have a block. Metadata that came from elsewhere may name
// others.
func isBlock(b muster.BlockID) bool { return b.Container != 0 && b.LocalID != 0 }

// appendTagEnd appends the first key past all keys of a tag.
func appendTagEnd(dst []byte, tag byte) []byte { return append(dst, tag+1) }

// splitIDKey reads a key that is a tag and an id, with exactly rest bytes after it; rest < 0
// is any number.
func splitIDKey(key []byte, rest int) (id uint64, tail []byte, ok bool) {
	if len(key) < idKeyLen || rest >= 0 && len(key) != idKeyLen+rest {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(key[1:]), key[idKeyLen:], true
}
