// Package listing lists many directories in one call: the batched listing of
// HDFS-13616, by page ([Lister.Page]) and by stream ([Lister.Stream]).
//
// A page is what one view of the tree is read for. It ends at its limit of entries,
// its byte budget, its bound of examined names or of paths, whichever comes first, and
// a directory that was cut always leaves the cursor inside it: so every limit gives
// the same rows. The view is taken once and given back as soon as the page's rows are
// in buffers; nothing is encoded or sent while one is held, unless the caller asked for
// one state over a whole stream ([muster.ConsistencySnapshot]).
//
// Within a page, paths are listed in stages of up to 64: all are resolved, then the
// directories that are not in memory are loaded in one ordered pass, then rows go, path
// by path, from the tree's memory into the columns of a frame. Buffers go from call to
// call, so that neither a row nor a path nor, once they have grown, a page allocates.
//
// Where blocks are is found out between the page's view and its message, with no view held but
// that of a snapshot stream: [Places] gives what it has in memory, and from the first container
// on that is not there it is asked once for all the rest of the page. Rows name
// nodes by their position in a table of the call, to which messages add.
//
// A stream lists in one goroutine and sends in another, the caller's. They share two
// messages: one is sent, the next one waits. So the two overlap, and a client that reads
// slowly holds up its own stream and nothing else.
//
// Rows go out in the order of the paths and, within a path, of the names' bytes. Each
// path gets exactly one [muster.Outcome], after its last row. What is wrong with one
// path is that path's outcome and never fails the others; what is wrong with the call
// (no paths, too many, unknown options, a bad cursor) or with the tree itself is an
// error of the call.
//
// A [Lister] is safe for concurrent use and keeps nothing between calls but buffers:
// where a listing stands is in its cursor, which any server of the same cluster key can
// go on from. Callers hand in functions: send takes messages, whose buffers are valid
// until it returns, and is called from the goroutine that called Page or Stream; next
// gives a stream's paths and is called from one goroutine. Stream owns that goroutine
// and the one that lists, and waits for both.
package listing
