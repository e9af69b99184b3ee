package locations

import (
	"context"

	"github.com/muster-fs/muster"
)

// Located is what the cache says of one container.
type Located struct {
	// Placement is immutable and stays valid; nil if Err is not. One that is not usable
	// (see muster.Placement.Usable) is answered and not kept. Every node it names is known
	// to Cache.Node.
	Placement *muster.Placement
	Seen      Seen
	Err       error
}

// Stale names an answer that proved wrong.
type Stale struct {
	Container uint64
	Seen      Seen
}

// Cache is the shared location cache. Everything on it is safe for concurrent use.
type Cache struct {
}

// New makes an empty cache over s.
func New(s Source, o Options) (*Cache, error) { panic("not yet") }

// Close ends the loads in flight and waits for them. What is cached is answered further
// on, anything else is ErrUnavailable.
func (c *Cache) Close() { panic("not yet") }

// Get says where containers are, out[i] for ids[i]; an id may occur repeatedly.
func (c *Cache) Get(ctx context.Context, ids []uint64, out []Located) error { panic("not yet") }

// Refresh is Get for containers of which an earlier answer proved wrong.
func (c *Cache) Refresh(ctx context.Context, stale []Stale, out []Located) error {
	panic("not yet")
}

// Reload is Get by loads that begin after the call.
func (c *Cache) Reload(ctx context.Context, ids []uint64, out []Located) error { panic("not yet") }

// Learn takes over node records that came by another way than an answer, as with a
// new topology.
func (c *Cache) Learn(nodes []muster.Node) { panic("not yet") }

// Node returns the newest record of a datanode, nil if there is none. It takes no lock.
func (c *Cache) Node(n muster.NodeNumber) *muster.Node { panic("not yet") }

// NumNodes returns a number above those of all known datanodes.
func (c *Cache) NumNodes() int { panic("not yet") }

// Stats counts.
func (c *Cache) Stats() Stats { panic("not yet") }
