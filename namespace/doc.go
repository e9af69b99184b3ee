// Package namespace is the tree: directories, files and links on a Pebble store in
// one folder, the commands that change them, and views that read them.
//
// # Contract
//
// [Open] gives a [Tree], which has one owner at a time: the folder is locked.
// Everything on a Tree is safe for concurrent use.
//
// Changes go through [Tree.Apply]: a batch of commands, all or none, durable when
// it returns. One goroutine, the committer, applies the batches of all callers in
// turn and waits once for the disk for all that queued up meanwhile.
//
// Reads go through a [View], one durable state of the whole tree: take it by
// [Tree.View], read through a [Reader] of it (one goroutine each), close the reader
// and release the view. Taking a view is the only time that a reader takes a lock,
// and no lock is held over I/O: a stalled or slow disk stops writers, never readers.
// A view holds back compaction while it is kept, so keep it as long as reading takes.
//
// [Tree.Close] waits for the views that are out.
//
// # Failure
//
// Errors carry a [muster.Code]. A record that cannot be read, or that does not
// decode exactly, is muster.ErrCorrupt, never a wrong row. When a write to the log
// fails, nobody knows what is on the disk: the tree then refuses every further call
// with muster.ErrUnavailable and calls Options.OnFatal; opening the folder again
// recovers all that was acknowledged.
package namespace
