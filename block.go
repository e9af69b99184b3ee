package muster

import "fmt"

// BlockID names a block: local ids count up within a container and are never used again.
type BlockID struct{ Container, LocalID uint64 }

// String returns container/local id.
func (b BlockID) String() string { return fmt.Sprintf("%d/%d", b.Container, b.LocalID) }

// How blocks are cut. The sizes are part of the wire and disk formats.
const (
	ChecksumBytes = 16 << 10 // of data, that one CRC-32C is of
	ChunkBytes    = 4 << 20  // of all chunks of a block but the last

	// MaxTransfer is the most bytes of data that one message between a datanode and those who
	// read and write may have: whole checksums, and room for the rest below 1 MiB.
	MaxTransfer = 1<<20 - ChecksumBytes
)

// The sizes of blocks, in bytes. A file's blocks but the last have its block size, unless a
// datanode failed while one was written.
const (
	DefaultBlockSize = 256 << 20
	MinBlockSize     = ChunkBytes
	MaxBlockSize     = 4 << 30
)

// Holder names a client that holds leases: 16 random bytes, those of its request ids. The
// zero value is nobody.
type Holder [16]byte
