// Package images keeps packed immutable items in memory under a byte budget. It knows
// nothing of what they hold: an item is bytes under a 64-bit key, with the transaction
// id since which they are current.
//
// # Contract
//
// [Cache.Get] gives an item to a reader at transaction txid only if since <= txid. It
// takes no lock, allocates nothing and never gives bytes that are torn or another
// key's. The bytes stay valid for as long as they are held, whatever becomes of the
// item. [Cache.GetAll] is the same for many keys, faster if they are in no order.
// [Cache.Put] and [Cache.Drop] hold one mutex, for microseconds: at most as long as
// looking at the items of about one slab takes.
//
// The cache orders nothing by itself: that nothing outdated is put after the Drop
// that should have removed it is the callers' part. It promises them that a Get that
// begins after a Drop returned does not see what was dropped, and that a Put never
// replaces an item by one with a smaller since (an equal one it does). An item may
// vanish at any time.
//
// # Memory
//
// Items lie one behind the other in slabs, which hold no pointers, and the index is
// tables of plain words: a million items are a few thousand objects to the garbage
// collector. Items put one after the other stay side by side, also when they are
// moved. A slab's memory is never written twice, which is why items stay valid: what
// is evicted is left to the collector. The budget covers what the cache refers to,
// not what waits to be collected or is held by readers.
//
// # Admission and eviction
//
// The slabs form two queues (S3-FIFO: Yang et al., SOSP 2023). A new item enters
// probation. When memory is short, the oldest items of probation are looked at: those
// read since they came move to the main queue, the others are evicted, and the ghost
// remembers their keys for a while; an item whose key it remembers enters the main
// queue at once. Once probation is down to a tenth of the budget, the oldest of the
// main queue are looked at instead: read since, they move to its end. So one pass
// over everything goes through probation alone and leaves the main queue as it was.
//
// A Put looks at a bounded stretch of items, in proportion to its own size, and
// begins before the budget is used up. Only when that does not suffice, since nearly
// all is in use, are items evicted that had been read.
//
// # Why lock-free reading is right
//
// The index gives a key's location: slab, generation of the slab, offset. Writers hold
// the mutex; readers rely on these rules:
//
//   - An item's bytes are written before its location is stored, and a slab is entered
//     in the list of slabs before a location names it. Both stores are atomic, so who
//     sees the location sees the bytes. Neither is written again.
//   - A slot of a table belongs to one key until the table is replaced: its key is
//     stored before its location is for the first time not zero. So location and key
//     belong together in whatever order they change.
//   - An item that moves is in its new place before its old slab leaves the list, and
//     the list's place is used again only with another generation. So a location is
//     either good or recognised as gone, and looking once more finds a newer one.
//   - A table is replaced as a whole. A reader that still uses the old one finds what
//     was there when it began, or a location that is gone.
package images
