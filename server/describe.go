package server

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/topology"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// maxLocated bounds the blocks of an answer and all that is told of where they are, so
// that the message stays under 1 MiB. What does not fit is for another call.
const maxLocated = 1<<20 - 64<<10

// maxReplicas is how many replicas of a container are told: a byte can name them.
const maxReplicas = math.MaxUint8

// describe says where the blocks of a file are, by what the cache says of its containers, and
// gives what it takes to read them if sign is not nil. Blocks that do not fit are cut off the
// entry, too.
func (h *handlers) describe(ctx context.Context, f file, places []locations.Located, o order, sign *signing) *pb.Located {
	d := description{cache: h.cache, file: f, places: places, sign: sign, located: &pb.Located{Offset: f.offset, NoData: f.noData}}
	d.prepare()
	count := d.fit()
	if count < len(f.in) {
		f.entry.Blocks = f.entry.Blocks[:count]
		d.located.Next = uint32(f.first + count)
	}
	if o.sorted && count > 0 {
		d.sort(count, o.from(ctx, h.topology))
	}
	if sign != nil {
		d.signAll()
	}
	return d.located
}

// description is an answer in the making.
type description struct {
	cache   *locations.Cache
	file    file
	places  []locations.Located // of the file's containers
	sign    *signing            // nil: no tokens
	located *pb.Located
	at      []uint32 // for each of the file's containers its position in the answer plus one; 0: not there
	nodes   positions[muster.NodeNumber]
	numbers []muster.NodeNumber // scratch of fresh
	message string              // of the container before
	size    int

	// Memory for all that is described, taken at once.
	containers []pb.LocatedContainer
	replicas   []uint32
	seen       []byte
}

func (d *description) prepare() {
	replicas := 0
	for i := range d.places {
		replicas += len(replicasOf(&d.places[i]))
	}
	n := len(d.places)
	d.at = make([]uint32, n)
	d.containers = make([]pb.LocatedContainer, n)
	d.replicas = make([]uint32, 0, replicas)
	d.seen = make([]byte, 0, n*locations.SeenBytes)
	d.located.Containers = make([]*pb.LocatedContainer, 0, n)
	d.located.Placements = make([]uint32, 0, len(d.file.in))
	if d.sign != nil {
		d.size += token.MaxGrantBytes + grantBytes
	}
}

// replicasOf returns the nodes that are told of a container.
func replicasOf(l *locations.Located) []muster.NodeNumber {
	if l.Err != nil {
		return nil
	}
	return l.Placement.Nodes[:min(len(l.Placement.Nodes), maxReplicas)]
}

// fit describes the containers of as many blocks as fit, one at least, and returns their
// number.
func (d *description) fit() int {
	signature := 0
	if d.sign != nil {
		signature = token.MACBytes
	}
	for i, c := range d.file.in {
		d.size += signature + sizeOf(d.file.entry.Blocks[i]) + protowire.SizeVarint(uint64(c)) + len(replicasOf(&d.places[c]))
		var (
			m     *pb.LocatedContainer
			fresh []*pb.Node
		)
		if d.at[c] == 0 {
			m = d.container(c)
			fresh = d.fresh(c)
			d.size += sizeOf(m) + replicaBytes*len(replicasOf(&d.places[c]))
			for _, n := range fresh {
				d.size += sizeOf(n)
			}
		}
		if d.size > maxLocated && i > 0 {
			return i
		}
		if m != nil {
			d.add(c, m, fresh)
		}
		d.located.Placements = append(d.located.Placements, d.at[c]-1)
	}
	return len(d.file.in)
}

// grantBytes is what tokens take at most in an answer, beside the grant and the MACs: three tags, two
// lengths and a number.
const grantBytes = 3 + 2*5 + 10

// replicaBytes is what the position of a node takes at most.
var replicaBytes = protowire.SizeVarint(muster.MaxNodes)

// sizeOf is what a message takes within another.
func sizeOf(m proto.Message) int { return 1 + protowire.SizeBytes(proto.Size(m)) }

// container returns what is told of a container beside its nodes.
func (d *description) container(c uint32) *pb.LocatedContainer {
	place, m := &d.places[c], &d.containers[c]
	m.Container = d.file.containers[c]
	if place.Err != nil {
		code, text := rpc.ToStatus(place.Err)
		m.Code = code
		if text != d.message {
			m.Message, d.message = text, text
		}
	} else {
		m.Replication = uint32(place.Placement.Replication)
	}
	d.seen = append(d.seen, place.Seen[:]...)
	m.Seen = d.seen[len(d.seen)-locations.SeenBytes : len(d.seen) : len(d.seen)]
	return m
}

// fresh returns the nodes of a container that the answer does not have yet.
func (d *description) fresh(c uint32) []*pb.Node {
	numbers := d.numbers[:0]
	for _, n := range replicasOf(&d.places[c]) {
		if _, ok := d.nodes.find(n); !ok && n != muster.NoNode && !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	d.numbers = numbers
	nodes := make([]*pb.Node, len(numbers))
	for i, n := range numbers {
		nodes[i] = rpc.NodeToPB(d.cache.Node(n))
	}
	return nodes
}

// add adds a container to the answer.
func (d *description) add(c uint32, m *pb.LocatedContainer, fresh []*pb.Node) {
	first := len(d.replicas)
	for _, n := range replicasOf(&d.places[c]) {
		at := uint32(0)
		if n != muster.NoNode {
			at = d.nodes.of(n) + 1
		}
		d.replicas = append(d.replicas, at)
	}
	m.Nodes = d.replicas[first:len(d.replicas):len(d.replicas)]
	d.located.Nodes = append(d.located.Nodes, fresh...)
	d.located.Containers = append(d.located.Containers, m)
	d.at[c] = uint32(len(d.located.Containers))
}

// sort puts the replicas of each of the first blocks in an order of its own, so that not all
// readers of blocks that lie together go to one node. Silent nodes come last.
func (d *description) sort(count int, from *topology.Reader) {
	var room [maxReplicas]int
	seed := rand.Uint64()
	total := 0
	for _, c := range d.file.in[:count] {
		total += len(replicasOf(&d.places[c]))
	}
	d.located.Order = make([]byte, 0, total)
	for i, c := range d.file.in[:count] {
		replicas := replicasOf(&d.places[c])
		order := from.Order(room[:0], replicas, seed+uint64(i), d.state)
		for _, at := range order {
			d.located.Order = append(d.located.Order, byte(at))
		}
	}
}

// state returns the state of a datanode that a placement names.
func (d *description) state(n muster.NodeNumber) muster.NodeState {
	if record := d.cache.Node(n); record != nil {
		return record.State
	}
	return muster.Dead
}
