// Package blocks reads and writes files on datanodes. It knows no paths: who opens a file
// asks the namespace where its blocks are, and gives this package the answer and a way to
// ask again.
//
// A program has one [Datanodes], which holds its connections. [NewFile] makes a reader of a
// [Layout], [NewWriter] a writer of blocks that it asks for one by one.
//
// # Reading
//
// A file is read in two ways, each of which has its own path to the datanodes.
//
// The positioned one is [File.ReadAt], for any number of goroutines. It takes no lock and
// waits for nobody: what it needs to know of a block is an immutable value behind an atomic
// pointer, which one goroutine replaces while others go on with the old one. In particular
// it never waits for a sequential read, whatever that waits for, and never moves the cursor.
//
// The sequential one is [File.Read], [File.Seek] and [File.WriteTo]. They take turns. What
// they read ahead lies in memory that all files of a Datanodes share the bounds of, and is
// given back, as is the connection of a stream, when nobody has read for a second.
//
// There is nothing to ask of a datanode before the first byte: how long a block is, the
// namespace knows, since it is told only of committed blocks, and how it is cut into checksums
// is the same for all (muster.ChecksumBytes). A datanode that has fewer bytes is one that
// answers wrongly.
//
// Both read by chunk, one call for at most muster.MaxTransfer bytes, or by stream, one call
// after which the datanode sends on as long as it is read; see [Mode]. All data is verified
// against its checksums before anybody sees it.
//
// # Failures
//
// A read goes from one replica to the next, and comes back to one that has failed only after
// a pause, until [ReadOptions].Attempts are used up. What it does after a failure depends on
// the code:
//
//	NOT_FOUND, CHANGED, UNAVAILABLE    next replica; after the last one the locations of this
//	(a broken connection, no answer    container, and of no other, are asked for again
//	within the timeout too)
//	UNAUTHENTICATED, PERMISSION_DENIED the read fails at once
//	CORRUPT, wrong checksum, short     next replica; the locations are not asked for
//	answer, and everything else
//
// Tokens are renewed when three quarters of their time are over, beside the reads. One that
// has ended is waited for.
//
// The cursor moves by exactly the bytes that were delivered, so a read that failed can be
// repeated.
package blocks
