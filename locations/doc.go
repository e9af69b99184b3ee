// Package locations is the shared location cache: the only way from a namespace call to
// the location service. It knows containers and datanodes, and no paths.
//
// # Contract
//
// [Cache.Get] answers from memory what it can, without a lock and without allocating,
// and has the rest loaded in one call to the [Source]; [Cache.Cached] is the first half of
// that alone, for callers who name very many containers. [Cache.Refresh] is for a reader
// whose answer proved wrong: it says what it has seen, and is answered from memory if
// something was loaded after that. [Cache.Reload] always loads. These three answer each
// container for itself: an error belongs to one, and a caller waits no longer than its
// context, whatever the source does. Everything is safe for concurrent use.
//
// # Sequence numbers
//
// Each load (one call to the source) takes the next sequence number when it begins, and
// an answer carries its load's. So of two answers the one with the higher number is of a
// load that began later, and vouches for a later time, no matter which came first.
// Sequence numbers are the only order there is: neither times nor pipelines nor versions
// of the source are compared. All rules follow from them:
//
//   - Who asks for a container gives a floor: Get 0, Refresh the number that was seen,
//     Reload one above all numbers. The answer is of a load above the floor: a cached one,
//     else one in flight, else a new one. A load that is not yet sent has no number and is
//     above every floor. What was seen of another boot counts as older than all that this
//     cache knows: its floor is 0.
//   - While any load of a container is in flight, its flight remembers the highest number
//     that has been answered. An answer below it changes nothing: it neither replaces nor
//     brings back what a newer one replaced or ended, or what was evicted since. Once none
//     is in flight, none is left that could be late. Only the load made last is joined.
//   - A usable answer is kept. One that is not, and ErrNotFound, end what was kept before.
//     Any other error says nothing: what is there stays.
//   - A flight ends in the same critical section in which its answer is kept, and who
//     misses looks again in the one in which it joins. So between them there is no gap in
//     which a second load could begin.
//
// It follows that for one container the numbers never go back: a call that begins after
// another has returned gets the same or a higher one. And readers of a dead datanode cost
// one load for each container, at once or one after another, since the second of them
// finds what the first had loaded.
//
// Records of datanodes follow the same rule, each with the number of the load that
// described it last. Placements name datanodes by number alone, so that a new record is
// in force everywhere at once.
//
// # Loads
//
// A load belongs to the cache, not to the caller that caused it: it goes on when that
// one leaves, until its own time is over, and [Cache.Close] waits for it. A bounded number
// runs at a time. What is missed while all are busy is gathered, and goes with the next;
// if all who wait for it leave before that, it is not sent.
//
// # Memory
//
// An entry holds its placement, so that an answer is a pointer into it. It is never
// changed: a newer answer makes a new entry. Entries hang in chains from a fixed array;
// links are atomic, and an entry that has left its chain keeps its own link, so a reader
// that stands on it goes on to what was behind it. So an answer that somebody holds keeps
// its entry, and at most the few that were behind it in the chain.
//
// When the cache is full, a hand goes round (CLOCK): it takes one from the readings noted
// of each entry that it passes, and evicts the first that has none or has expired, else
// the least read of a bounded number.
package locations
