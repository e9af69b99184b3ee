package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"github.com/cockroachdb/pebble/vfs"
)

// compacted is a table that the store opened to read it for a compaction.
//
// A compaction of the store passes over a block that it cannot read, and the table it makes lacks what
// the block held: damage would turn into an answer that there is no such file. So a compaction
// that meets such a block never gets an answer. It keeps its tables until the tree is closed, and
// can then write no more. Whatever reads the block otherwise is told that it is damaged.
type compacted struct {
	vfs.File
	fs   *failStop
	name string
}

var errSealed = errors.New("writing ended at a damaged table")

// Open implements vfs.FS.
func (f *failStop) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err == nil && slices.Contains(opts, vfs.SequentialReadsOption) {
		file = compacted{file, f, name}
	}
	return file, err
}

// ReadAt implements vfs.File. The store reads whole blocks.
func (c compacted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	if err == io.EOF && n == len(p) {
		err = nil
	}
	if err == nil && !blockIntact(p) {
		err = corrupt("checksum")
	}
	if err != nil {
		c.fs.damaged(corrupt("table %s, %d bytes at %d: %v", c.name, len(p), off, err))
		<-c.fs.closing
		c.fs.sealed.Store(true)
	}
	return n, err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockIntact checks the checksum that ends a block of a table: CRC32C, masked as in LevelDB.
func blockIntact(b []byte) bool {
	const size = 4
	if len(b) < size {
		return false
	}
	sum := crc32.Checksum(b[:len(b)-size], castagnoli)
	return binary.LittleEndian.Uint32(b[len(b)-size:]) == (sum>>15|sum<<17)+0xa282ead8
}
