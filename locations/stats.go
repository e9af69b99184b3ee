package locations

import "time"

// Stats counts since the cache was made; Size, Nodes, Loading and Waiting are of now.
type Stats struct {
	Size    int // containers kept, those past their time included
	Nodes   int // datanodes known
	Loading int // calls to the source in flight
	Waiting int // containers gathered for the next call

	Hits       uint64        // containers answered from memory
	Misses     uint64        // containers that were not in memory, or past their time
	Forced     uint64        // containers that were in memory, but not new enough for the caller
	Loads      uint64        // calls to the source that have ended
	LoadErrors uint64        // of these, those that failed as a whole
	Loaded     uint64        // containers in the calls that did not
	Unkept     uint64        // of these, those without a usable placement
	Evictions  uint64        // containers dropped for others, for want of space
	LoadTime   time.Duration // sum over the calls to the source
}
