package store

import (
	"errors"
	"time"

	"github.com/muster-fs/muster"
)

// Store is the blocks on the disks of one datanode. It is safe for concurrent use.
type Store struct{}

// Writer writes one block. One goroutine may Sync while another writes; Commit and Close come
// after both.
type Writer struct{}

var errTodo = errors.New("to be written")

// Open opens the folders, and makes those that do not exist. A disk that cannot be opened counts
// as failed, and Disks says why; if that is so of all, it is an error.
func Open(dirs []string, o Options) (*Store, error) { return nil, errTodo }

// Close waits for calls in progress, and gives the folders back. Writers are left as by their Close.
func (s *Store) Close() error { return errTodo }

// Create begins a block for a file of this inode id, and makes the container if it does not exist.
//
// Errors are ErrExists for a block that exists, is being written, or was deleted, ErrChanged if the container is
// closed, ErrUnavailable if there is no disk with room.
func (s *Store) Create(id muster.BlockID, file uint64) (*Writer, error) { return nil, errTodo }

// CreateCopy is Create for a block that is committed elsewhere: the container may be closed.
func (s *Store) CreateCopy(id muster.BlockID, file uint64) (*Writer, error) { return nil, errTodo }

// Write appends data at offset, where the Write before ended. It is whole checksums, but in the last
// Write, and at most muster.MaxTransfer. Checksums are the CRC-32C of each muster.ChecksumBytes of
// it, little-endian.
//
// Errors are ErrInvalid for data out of order or after the end, ErrLimit, ErrCorrupt if data does not match its
// checksums, ErrChanged if the container was closed meanwhile, ErrNotFound if it or its disk is gone,
// ErrNoData if the block was deleted, ErrUnavailable if the disk is full. After the last four, and other failures of
// the disk, what is durable stays as it is, and no more can be written.
func (w *Writer) Write(offset int64, data, checksums []byte) error { return errTodo }

// Sync makes what was written before it durable, and returns how much of the block is.
func (w *Writer) Sync() (durable int64, err error) { return 0, errTodo }

// Commit makes the block durable and readable, and ends the Writer unless it fails. A block without data is fine.
func (w *Writer) Commit() error { return errTodo }

// Close ends the Writer: what is durable is an unfinished block. After Commit it does nothing.
func (w *Writer) Close() error { return errTodo }

// Stat returns what is known of a block, committed or not. ErrNotFound: there is no such
// container; ErrNoData: it has no such block.
func (s *Store) Stat(id muster.BlockID) (Info, error) { return Info{}, errTodo }

// Read reads from a committed block into dst, from offset on, and appends the checksums of what it
// read to checksums. Offset is a multiple of muster.ChecksumBytes, and so is the length of dst,
// unless it reaches the end. At the end nothing is read, and past it is ErrInvalid. The data is not compared with
// the checksums. A read that is frequent allocates nothing and takes no lock.
//
// Errors are ErrNotFound if there is no such container, or its disk failed, ErrNoData if it has no such block,
// or the block is not committed, ErrCorrupt if the disk cannot read it.
func (s *Store) Read(id muster.BlockID, offset int64, dst, checksums []byte) (n int, sums []byte, err error) {
	return 0, checksums, errTodo
}

// Commit makes an unfinished block readable, cut to a length that is durable. A block that is
// committed with this length is fine, with another one ErrExists. A Writer that the block still has
// can do no more.
func (s *Store) Commit(id muster.BlockID, length int64) error { return errTodo }

// Delete removes a block for good, if it is there. A Writer that it still has can do no more.
func (s *Store) Delete(id muster.BlockID) error { return errTodo }

// Deleted says whether a block was deleted here, within TombstoneLife.
func (s *Store) Deleted(id muster.BlockID) bool { return false }

// List returns up to max blocks of a container after a local id, in the order of their ids.
func (s *Store) List(container, after uint64, max int) ([]Listed, error) { return nil, errTodo }

// Containers returns all containers, by id.
func (s *Store) Containers() []Container { return nil }

// Changes receives when there may be something to take. It is never closed.
func (s *Store) Changes() <-chan struct{} { return nil }

// TakeChanges returns what changed since the call before, by id; at first everything.
func (s *Store) TakeChanges() []Change { return nil }

// CloseContainer closes a container: it takes no new blocks and no data any more. Twice is fine.
func (s *Store) CloseContainer(id uint64) error { return errTodo }

// Drop removes a container with all its blocks. Nil if it is not there.
func (s *Store) Drop(id uint64) error { return errTodo }

// Unfinished returns up to max blocks that are not committed and were not touched for olderThan, the oldest first.
func (s *Store) Unfinished(olderThan time.Duration, max int) []Unfinished { return nil }

// Disks returns how the disks are, in the order of Open.
func (s *Store) Disks() []Disk { return nil }

// Scrub has all disks scrubbed now. It returns at once: false if that is going on already.
func (s *Store) Scrub() (started bool) { return false }

// ScrubState returns how far scrubbing is.
func (s *Store) ScrubState() ScrubState { return ScrubState{} }

// Stats returns the counters.
func (s *Store) Stats() Stats { return Stats{} }
