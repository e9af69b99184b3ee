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
// # Images
//
// Rows of hot directories are kept in memory as packed images, under Options.ImageBytes: of a
// whole directory, or of a range of names of a large one. Readers use them by themselves: a page
// of hot directories reads nothing from the store, and [Reader.Load] reads all that are missing in
// one ordered pass. The records of directories, which have what changes often, are kept apart as
// heads: a change of a directory's mtime leaves its image alone, and a change in a directory
// leaves its parent's.
//
// What is in memory is what the newest durable state says, and has said so since a txid: of a
// directory, the last change to its children's rows. So it serves a view if that txid is not past
// the view's; otherwise the view's snapshot does. Three rules keep that true:
//
//   - A commit, once durable, marks the loads in flight that it touches, makes its view the one
//     that later loads read from, drops the images and heads that it touches, and only then can
//     its view be had.
//   - A reader registers a load before it gets the view to read from, the newest, and publishes
//     what it read unless a commit has marked it. Marking and publishing exclude each other. A
//     range is marked by the names in it.
//   - A view looks into memory only after it was taken, and what it reads from its own snapshot
//     is never published.
//
// Renaming a directory or its ancestors leaves the images of all below it alone, since they lie
// under inode ids. A directory that does not decode is never an image.
//
// # Writing files
//
// A file has muster.FlagWriting from StartFile to FinishFile. An index that survives crashes says
// who writes it: [Tree.Writings]. Blocks that no file has any more, for whatever reason, enter a
// queue in the batch that says so: [Tree.Deletions] reads it, and whoever had them deleted on all
// datanodes takes them from it by [Tree.Deleted]. Those of deleted trees, and those of long lists,
// come there step by step in the background. A block is one file's: if two have it, deleting one of
// them deletes the block, and Fsck says so as long as it is in the queue.
//
// # Failure
//
// Errors carry a [muster.Code]. A record that cannot be read, or that does not
// decode exactly, is muster.ErrCorrupt, never a wrong row. When a write to the log
// fails, nobody knows what is on the disk: the tree then refuses every further call
// with muster.ErrUnavailable and calls Options.OnFatal; opening the folder again
// recovers all that was acknowledged.
package namespace
