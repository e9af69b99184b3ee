package listing_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
)

// service is a location service whose answers a test decides, and whose calls it counts.
type service struct {
	mu         sync.Mutex // guards all below
	nodes      []muster.Node
	placements map[uint64]muster.Placement
	failures   map[uint64]error // outcomes of containers
	err        error            // of each call
	before     func(context.Context) error
	calls      [][]uint64 // the containers of each, in order
}

func (s *service) Lookup(ctx context.Context, containers []uint64) (locations.Answer, error) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		if err := before(ctx); err != nil {
			return locations.Answer{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, slices.Sorted(slices.Values(containers)))
	if s.err != nil {
		return locations.Answer{}, s.err
	}
	answer := locations.Answer{Nodes: slices.Clone(s.nodes)}
	for _, id := range containers {
		p, ok := s.placements[id]
		err := s.failures[id]
		if !ok && err == nil {
			err = fmt.Errorf("%w: container %d", muster.ErrNotFound, id)
		}
		p.Container = id
		answer.Outcomes = append(answer.Outcomes, locations.Outcome{Placement: p, Err: err})
	}
	return answer, nil
}

// change changes the service under its lock.
func (s *service) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// take returns the calls since it was called last.
func (s *service) take() [][]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// asked wants the calls since the last take to have asked for these containers, each once.
func (s *service) asked(t testing.TB, what string, want ...[]uint64) {
	t.Helper()
	if got := s.take(); !slices.EqualFunc(got, want, slices.Equal[[]uint64]) {
		t.Errorf("%s: the location service was asked for %v, want %v", what, got, want)
	}
}

// place places containers on nodes.
func (s *service) place(r muster.Replication, nodes []muster.NodeNumber, containers ...uint64) {
	s.change(func() {
		for _, id := range containers {
			s.placements[id] = muster.Placement{Replication: r, Closed: true, Nodes: nodes}
		}
	})
}

// The nodes of a test are four in each of the racks /r0 to /r3: node 4r+i is in rack r.
func testNodes() (nodes []muster.Node) {
	for n := range muster.NodeNumber(16) {
		nodes = append(nodes, muster.Node{Number: n, ID: fmt.Sprintf("node-%d", n), Host: fmt.Sprintf("dn%d", n), Port: 9866, Rack: fmt.Sprintf("/r%d", n/4)})
	}
	return nodes
}

// locatedWorld is a world beside a location service.
type locatedWorld struct {
	*world
	*service
	cache    *locations.Cache
	topology *topology.Map
}

func newLocatedWorld(t testing.TB) *locatedWorld {
	t.Helper()
	s := &service{nodes: testNodes(), placements: map[uint64]muster.Placement{}, failures: map[uint64]error{}}
	cache, err := locations.New(s, locations.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	w := &locatedWorld{world: newWorld(t), service: s, cache: cache, topology: new(topology.Map)}
	w.topology.Swap(treeOf(t, s.nodes))
	return w
}

func treeOf(t testing.TB, nodes []muster.Node) *topology.Tree {
	t.Helper()
	tree, err := topology.New(topology.Schema{}, nodes, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func (w *locatedWorld) lister(c listing.Config) *listing.Lister {
	w.Helper()
	c.Places, c.Topology = w.cache, w.topology
	return w.world.lister(c)
}

// file makes a file of blocks of 100 bytes in the given containers.
func (w *locatedWorld) file(path string, r muster.Replication, containers ...uint64) {
	w.Helper()
	c := muster.Create{Path: path, Mode: 0o644, Parents: true, Replication: r, BlockSize: 100, Length: int64(100 * len(containers))}
	for i, container := range containers {
		c.Blocks = append(c.Blocks, muster.Block{Container: container, LocalID: uint64(i + 1), Length: 100})
	}
	w.do(c)
}

// locatedRow is a row with the hosts of its blocks: nil is unknown, "" an absent replica.
type locatedRow struct {
	row
	hosts [][]string
}

// locatedCall is what a listing with locations gave, over all its messages.
type locatedCall struct {
	listed
	located []locatedRow
	table   []muster.Node
	ahead   int  // messages of nodes alone
	pages   bool // each message is a page
}

func (l *locatedCall) add(t testing.TB, m *listing.Message, o listing.Options) {
	t.Helper()
	l.table = append(l.table, m.Nodes...)
	if len(m.Nodes) > 0 && len(m.Frame) == 0 && len(m.Outcomes) == 0 {
		l.ahead++
		if len(m.Cursor) > 0 || m.Done {
			t.Error("a message of nodes alone has a cursor, or is the last")
		}
	}
	columns := o.Columns.Normal()
	if o.Locations != muster.NoLocations {
		columns |= rows.LocatedColumns
	}
	l.listed.add(t, m, columns)
	batch, err := rows.Decode(bytes.Clone(m.Frame), columns)
	if err != nil {
		t.Fatal(err)
	}
	if batch.NodeBound() > len(l.table) {
		t.Fatalf("rows name %d nodes, %d were sent", batch.NodeBound(), len(l.table))
	}
	size := len(m.Frame) + len(m.Cursor)
	for i := range m.Nodes {
		n := &m.Nodes[i]
		size += 40 + len(n.ID) + len(n.Host) + len(n.Address) + len(n.Rack)
	}
	for i := range m.Outcomes {
		size += 64 + len(m.Outcomes[i].Message)
	}
	most := 1 << 20
	if l.pages {
		most += 2 << 20 // a page has all its nodes
	}
	if size > most {
		t.Errorf("a message of %d bytes", size)
	}
	for i := range batch.Len() {
		r := locatedRow{row: row{batch.PathIndex(i), batch.Entry(i)}}
		for k := range batch.NumBlocks(i) {
			var hosts []string
			if nodes, known := batch.Nodes(i, k); known {
				hosts = make([]string, nodes.Len())
				for j := range hosts {
					if at, present := nodes.At(j); present {
						hosts[j] = l.table[at].Host
					}
				}
			}
			r.hosts = append(r.hosts, hosts)
		}
		l.located = append(l.located, r)
	}
}

// hosts gives the hosts of the blocks of the file of a name.
func (l *locatedCall) hosts(t testing.TB, name string) [][]string {
	t.Helper()
	for _, r := range l.located {
		if r.Name == name {
			return r.hosts
		}
	}
	t.Fatalf("no row %q", name)
	return nil
}

// locatedPages lists paths page by page to the end. Each page has a table of its own.
func locatedPages(t testing.TB, l *listing.Lister, paths []string, o listing.Options) *locatedCall {
	t.Helper()
	all := locatedCall{pages: true}
	var cursor []byte
	for {
		m, err := page(context.Background(), l, root, paths, o, cursor)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		if bytes.Equal(cursor, m.Cursor) && !m.Done {
			t.Fatalf("%+v: no progress", o)
		}
		all.table = nil
		all.add(t, m, o)
		if cursor = m.Cursor; m.Done {
			return &all
		}
	}
}

// locatedStream lists paths by one stream.
func locatedStream(t testing.TB, l *listing.Lister, paths []string, o listing.Options) *locatedCall {
	t.Helper()
	var all locatedCall
	err := l.Stream(context.Background(), root, o, nil, feedOf(paths, 3), func(m *listing.Message) error {
		all.add(t, m, o)
		return nil
	})
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return &all
}
