// Package client is the Go library of Muster. It feels like os and io/fs: names,
// flags and errors are theirs wherever they have one, with a context in front.
//
// A [Client] is made by [Dial], is safe for concurrent use, and is closed once when
// nobody uses it any more; [Client.As] gives another identity on the same connections.
// Paths are absolute (see muster.CleanPath). Times are kept in milliseconds.
//
// # Listing
//
// [Client.List] is what Muster is for: it lists any number of directories in one call
// and yields batches of rows while later paths are still on their way. The error of
// the iteration is one of the whole call. A path's own error is a value among the
// batch's outcomes, since one bad path never fails the others; [Collect] joins them.
// Exactly one outcome comes for each path, after its last row: so a path is known as
// finished while later ones still come, and no row is ever missing silently.
//
// A batch stays valid as long as it is kept. A reader of very many rows that is done with
// a batch may say so by [Batch.Release]: then others are received into its memory, and
// the garbage collector, which otherwise takes up to half of a listing's time, rests.
//
// # Locations
//
// [Client.Stat] says nothing of where blocks are, and costs accordingly;
// [Client.StatLocated] is for planners, [Client.Locate] for those who want a part of a
// file. For many files at once there are listings: ListOptions.Locations adds to the rows
// of a listing where the blocks are (see [Batch.Replica], which allocates nothing, and
// [Batch.Located]), and [Client.LocateMany] gives each of the named files its answer, in
// one call. Records of datanodes are shared by all rows and answers.
//
// A reader calls [Client.OpenLocated], and calls it again with what proved wrong when
// no replica of a block could be read. Replicas come in the order of their distance from
// Options.Reader.
//
// # Files
//
// [Client.Open] and [Client.Create] are those of os. A [File] is read at any place by any
// number of goroutines, none of which waits for another, and a [FileWriter] is written from
// its beginning to its end. Data goes between the program and the datanodes; all files of a
// client, and of those that As made from it, share its connections to them.
//
// A file that is being written is seen by everybody, as long as its blocks so far. What is in
// it for sure is known when Close has returned. WriteOptions.Atomic is for those who want
// others to see all or nothing.
//
// # Failures
//
// Errors about a path are *fs.PathError (or *os.LinkError where there are two
// paths), errors.Is works with the sentinels of io/fs and context, and all carry a
// muster.Code. Calls that only read are repeated on another connection when one
// breaks, a listing goes on from its last cursor, and commands are repeated under
// their request id, so that each is applied at most once. See [ErrOutcomeUnknown]
// for the one thing that cannot be hidden.
package client
