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
// Rows go out in the order of the paths and, within a path, of the names' bytes. Each
// path gets exactly one [muster.Outcome], after its last row. What is wrong with one
// path is that path's outcome and never fails the others; what is wrong with the call
// (no paths, too many, unknown options, a bad cursor) or with the tree itself is an
// error of the call.
//
// A [Lister] is safe for concurrent use and keeps nothing between calls: where a
// listing stands is in its cursor, which any server of the same cluster key can go on
// from. Callers of Stream hand in two functions: next gives chunks of paths and is
// called from one goroutine, which Stream owns and waits for; send takes messages and
// is called from the goroutine that called Stream.
package listing
