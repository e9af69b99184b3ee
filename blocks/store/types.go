package store

import (
	"time"

	"github.com/muster-fs/muster"
)

// TombstoneLife is how long a deleted block is remembered.
const TombstoneLife = 7 * 24 * time.Hour

// Info is what is known of a block.
type Info struct {
	Length    int64 // durable bytes
	Committed bool
	Damaged   bool      // the scrubber found it to be, or the disk could not read it
	File      uint64    // inode id of the file that it was written for
	Created   time.Time // when something of it became durable first
	Touched   time.Time // when something of it became durable last
	Chunks    []uint32  // CRC-32C of the data of each chunk; not to be changed
}

// Listed is a block in a listing.
type Listed struct {
	LocalID   uint64
	Length    int64 // durable bytes
	Committed bool
	Damaged   bool
	File      uint64
}

// Unfinished is a block that was never committed.
type Unfinished struct {
	ID   muster.BlockID
	File uint64
	Age  time.Duration // since something of it became durable last
}

// Container is what reports say of a container. Blocks, bytes and damaged blocks are committed ones.
type Container struct {
	ID      uint64
	Closed  bool
	Blocks  uint64
	Bytes   uint64
	Damaged uint64 // of the blocks
}

// Change is a container that came, went, or counts otherwise.
type Change struct {
	Container
	Gone bool // dropped, or its disk failed; the counts are 0
}

// DiskState is how a disk is. Numbers are those of the wire.
type DiskState uint8

// The states of disks.
const (
	DiskOK     DiskState = 0
	DiskFull   DiskState = 1 // takes no new blocks
	DiskFailed DiskState = 2 // taken out
)

// String returns ok, full or failed.
func (s DiskState) String() string {
	switch s {
	case DiskOK:
		return "ok"
	case DiskFull:
		return "full"
	}
	return "failed"
}

// Disk is how a disk is.
type Disk struct {
	Name     string // its folder
	State    DiskState
	Message  string // why it is not ok
	Capacity uint64 // bytes; 0: unknown
	Used     uint64 // bytes of blocks, finished or not
	Free     uint64 // bytes that blocks may still take
}

// ScrubState is how far scrubbing is, on all disks together.
type ScrubState struct {
	Running  bool
	Blocks   uint64 // read in this run, or in the last one
	Bytes    uint64
	Damaged  uint64    // of the blocks
	Finished time.Time // end of the last run; zero: never
}

// Stats counts since Open.
type Stats struct {
	Reads, ReadBytes     uint64
	Misses               uint64 // reads that had to open the file
	Handles              uint64 // files in it now
	Writes, WrittenBytes uint64
	Created, Committed   uint64 // blocks
	Deleted              uint64
	DataSyncs            uint64 // of files
	FolderSyncs          uint64
	MetadataSyncs        uint64
	ReadErrors           uint64 // of the disk, and files that end too early
	WriteErrors          uint64 // of the disk, being full apart
	BadChecksums         uint64 // of data to be written
	DamageFound          uint64 // blocks
	Repaired             uint64 // of them, by other replicas
	ScrubbedBytes        uint64
}
