package listing

import (
	"context"
	"fmt"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
)

// The bounds of a configuration.
const (
	maxMaxPaths    = 1_000_000
	maxMaxLimit    = 100_000
	maxPageBytes   = 512 << 10
	maxSnapshotAge = time.Hour
	keyBytes       = 32

	maxLocationLimit  = 1 << 30
	locationsPerEntry = 10 // of a page if the call does not say how many
)

// Config is how a server lists. The zero value works, except that a Lister needs a key.
type Config struct {
	MaxPaths    int           // paths of one page call, and of a stream's backlog; 0: 1,000; at most 1,000,000
	Limit       int           // entries of a page if the call names no limit; 0: 1,000, or MaxLimit if that is less
	MaxLimit    int           // a larger limit of a call becomes this one; 0: 10,000; at most 100,000
	PageBytes   int           // bytes of a page's rows and outcomes; 0: 512 KiB, which is also the most
	SnapshotAge time.Duration // how long a snapshot stream may keep its view; 0: 5 min; at most 1 h
	Key         []byte        // the cluster key, 32 bytes: servers of one key take each other's cursors

	Places   Places        // where containers are; nil: nobody knows
	Topology *topology.Map // how far datanodes are from readers; nil: nobody knows
}

// Places says where containers are, as *locations.Cache does.
type Places interface {
	// Cached gives, from memory and without the caller having to wait, the placements of the
	// first of ids, and returns how many.
	Cached(ids []uint64, out []*muster.Placement) int
	// Get says where containers are, out[i] for ids[i]; an id may occur repeatedly. Its error
	// is the context's, and then in out as well.
	Get(ctx context.Context, ids []uint64, out []locations.Located) error
	// Node returns the newest record of a datanode that Get has named.
	Node(n muster.NodeNumber) *muster.Node
}

// Validate names the first value that is out of its bounds.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case d.MaxPaths < 1 || d.MaxPaths > maxMaxPaths:
		return fmt.Errorf("%w: max paths %d; use 1 to %d", muster.ErrInvalid, c.MaxPaths, maxMaxPaths)
	case d.MaxLimit < 1 || d.MaxLimit > maxMaxLimit:
		return fmt.Errorf("%w: max limit %d; use 1 to %d", muster.ErrInvalid, c.MaxLimit, maxMaxLimit)
	case d.Limit < 1 || d.Limit > d.MaxLimit:
		return fmt.Errorf("%w: limit %d; use 1 to the max limit, %d", muster.ErrInvalid, c.Limit, d.MaxLimit)
	case d.PageBytes < 1 || d.PageBytes > maxPageBytes:
		return fmt.Errorf("%w: page bytes %d; use 1 to %d", muster.ErrInvalid, c.PageBytes, maxPageBytes)
	case d.SnapshotAge < time.Millisecond || d.SnapshotAge > maxSnapshotAge:
		return fmt.Errorf("%w: snapshot age %v; use 1ms to %v", muster.ErrInvalid, c.SnapshotAge, maxSnapshotAge)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.MaxPaths == 0 {
		c.MaxPaths = 1000
	}
	if c.MaxLimit == 0 {
		c.MaxLimit = 10_000
	}
	if c.Limit == 0 {
		c.Limit = min(1000, c.MaxLimit)
	}
	if c.PageBytes == 0 {
		c.PageBytes = maxPageBytes
	}
	if c.SnapshotAge == 0 {
		c.SnapshotAge = 5 * time.Minute
	}
	return c
}

// Options is what a caller asks of a listing. The zero value asks for the children of
// the paths, with the default limit and columns, nothing hidden, a view per page.
type Options struct {
	Limit       int          // entries of a page; 0 or less: the server's default; more than its bound: its bound
	Columns     rows.Columns // 0: rows.DefaultColumns; path_index and name are always sent
	Hidden      muster.Hidden
	Own         bool // the paths' own entries instead of their children; links are not followed
	Consistency muster.Consistency
	Follow      bool // with Own: a link in last place is followed

	// Locations adds rows.LocatedColumns, and to each block where it is. Replicas of a block
	// come in any order, but those of an erasure-coded one in that of their index; at most 14
	// are told. Own entries with muster.LocationsMust are for those who may read the files.
	Locations muster.Locations
	// LocationLimit bounds the locations of a page, blocks times the nodes of their file's
	// replication; 0: ten times the limit of entries. One file always passes.
	LocationLimit int
	// Sorted puts the replicas of each block that is not erasure-coded in the order of their
	// distance from the reader, by chance if that is equal or unknown; stale and dead
	// datanodes come last.
	Sorted bool
	// Reader is the host, address or network location of who will read; "": From.
	Reader string
	// From is the address that the call comes from. No cursor is bound to it.
	From string
}

// Validate refuses columns and values that this version does not know.
func (o Options) Validate() error {
	if err := o.Columns.Validate(); err != nil {
		return err
	}
	switch {
	case o.Hidden > muster.HiddenSpark:
		return fmt.Errorf("%w: unknown hidden preset %d; known are %d (none) to %d (spark)", muster.ErrInvalid, o.Hidden, muster.HiddenNone, muster.HiddenSpark)
	case o.Consistency > muster.ConsistencySnapshot:
		return fmt.Errorf("%w: unknown consistency %d; known are %d (page) and %d (snapshot)", muster.ErrInvalid, o.Consistency, muster.ConsistencyPage, muster.ConsistencySnapshot)
	case o.Locations > muster.LocationsMust:
		return fmt.Errorf("%w: unknown locations %d; known are %d (none), %d (hint) and %d (must)", muster.ErrInvalid, o.Locations, muster.NoLocations, muster.LocationsHint, muster.LocationsMust)
	case len(o.Reader) > muster.MaxRackBytes:
		return fmt.Errorf("%w: reader of %d bytes, at most %d", muster.ErrInvalid, len(o.Reader), muster.MaxRackBytes)
	}
	return nil
}

// canonical gives equal options equal values, whatever the server's configuration: a
// cursor is bound to them.
func (o Options) canonical() Options {
	o.Limit = max(o.Limit, 0)
	o.Columns = o.Columns.Normal()
	o.LocationLimit = min(max(o.LocationLimit, 0), maxLocationLimit)
	o.Follow = o.Follow && o.Own
	if o.Locations == muster.NoLocations {
		o.LocationLimit, o.Sorted = 0, false
	} else {
		o.Columns |= rows.LocatedColumns
	}
	if !o.Sorted {
		o.Reader = ""
	}
	return o
}

// reading says whether the listing is for those who may read the files.
func (o *Options) reading() bool { return o.Own && o.Locations == muster.LocationsMust }

// locationLimit is the number of locations that a page of so many entries may hold.
func (o Options) locationLimit(entries int) int {
	if o.LocationLimit == 0 {
		return locationsPerEntry * entries
	}
	return o.LocationLimit
}

// pageLimit is the number of entries that a page may hold.
func (o Options) pageLimit(c Config) int {
	if o.Limit <= 0 {
		return c.Limit
	}
	return min(o.Limit, c.MaxLimit)
}
