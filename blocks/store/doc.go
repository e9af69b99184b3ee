// Package store keeps blocks on the disks of one datanode.
//
// # Contract
//
// [Open] makes the caller the one owner of some folders, each on a disk of its own. Everything on
// the [Store] is safe for concurrent use; [Store.Close] comes last, waits for calls in progress,
// and calls after it are ErrUnavailable. The package knows no clients, tokens or peers: who may
// do what, and whether bytes that were read are still those that were written, is decided by
// others. Block and container ids of 0, and lengths and offsets that cannot be, are ErrInvalid.
//
// A block is written by one [Writer], from [Store.Create]: Write in order, one goroutine at a
// time; beside it another goroutine may Sync. What Sync returned is durable. Commit makes the block
// readable, and ends the Writer; Close without it leaves what is durable as an unfinished block.
// It stays, unreadable, until [Store.Commit] makes its beginning readable, or [Store.Delete]
// removes it. A committed block never changes.
//
// [Store.Delete] leaves a tombstone, for [TombstoneLife]: until then the block cannot be written
// again, so a copy under way does not bring it back. Ids are not used again after it either.
//
// # Containers
//
// A container is made with its first block, on the disk with the most free space, and stays on
// it. It exists for others once something of it is durable. [Store.Containers] is all there are;
// [Store.TakeChanges] is what came, went or counts otherwise than at the last take, and
// [Store.Changes] says when there is some. A closed container takes no new blocks and no more
// data, but copies of blocks that it lacks, by [Store.CreateCopy]; and what was written can be
// committed.
//
// # Disks
//
// An I/O error on a block leads to a test of its disk. If that passes, the block is damaged, and
// nothing else; if it does not, or if the disk's metadata cannot be read or written, the disk has
// failed: its containers are gone, and it is not touched again until the folder is opened again.
// A disk with less than Options.Reserve left, or whose system says that it is full, takes no new
// blocks and no more data (ErrUnavailable), and is read as before.
//
// # Damage
//
// Write compares what it is given with its checksums. Read does not: whoever gets the bytes does,
// since they may be damaged on the way as well. So a damaged block can be read where it is whole. The
// scrubber reads all committed blocks of each disk from time to time, within a rate; a block
// that does not match is marked as damaged, which Stat, List and the containers' counts tell, and a
// block that matches again is unmarked. [Store.Repair] replaces a damaged block by what another datanode
// has of it, and changes nothing of what the block says.
//
// # Crashes
//
// On a disk is one file a block, and a small Pebble with the metadata: see codec.go for the
// formats. A file's data and the entry of its folder are durable before metadata that counts them
// is written. So after a crash the metadata alone says what there is: files that it does not know,
// and what an unfinished block's file has past its length, are removed when the store is opened;
// what a committed one's has, by the scrubber. Where a file was deleted, metadata goes first.
//
// # Concurrency
//
// Metadata of a disk is changed by one goroutine, its committer, which makes what several callers
// want durable at once. A block that is read often has an immutable entry with its open file and its
// checksums in a bounded cache, which is found without a lock. No lock is held over I/O.
package store
