package client

import (
	"fmt"
	"math"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// errReplaced is what happened to a file whose answer came in pieces.
var errReplaced = fmt.Errorf("%w: the file was changed between two parts of the answer", muster.ErrChanged)

// add adds a piece of the answer, which was asked for from block first on, and returns
// where the next one begins, 0 if there is none.
func (l *Located) add(m *pb.LocatedReply, first uint32) (next uint32, err error) {
	entry, err := rpc.EntryFromPB(m.GetEntry())
	if err != nil {
		return 0, err
	}
	switch {
	case first == 0:
		l.Entry = entry
	case entry.ID != l.Entry.ID || entry.Length != l.Entry.Length || entry.MTime != l.Entry.MTime:
		return 0, errReplaced
	default:
		l.Entry.Blocks = append(l.Entry.Blocks, entry.Blocks...)
	}
	if m.Located == nil {
		if entry.Kind == muster.File {
			return 0, fmt.Errorf("%w: the server does not tell where blocks are; it is older than this client", muster.ErrInvalid)
		}
		return 0, nil
	}
	next = m.Located.GetNext()
	if next != 0 && (next <= first || len(entry.Blocks) == 0) || len(l.Entry.Blocks) > muster.MaxBlocks {
		return 0, corrupt("an answer of %d blocks from block %d on, that goes on at block %d", len(entry.Blocks), first, next)
	}
	containers, err := containersOf(m.Located)
	if err != nil {
		return 0, err
	}
	tokens, err := tokensOf(m.Located, len(entry.Blocks), entry.ID)
	if err != nil {
		return 0, err
	}
	l.NoData = l.NoData || m.Located.GetNoData()
	return next, l.locate(entry.Blocks, m.Located, containers, tokens)
}

// locate appends blocks and where they are.
func (l *Located) locate(blocks []muster.Block, m *pb.Located, containers []container, tokens *tokens) error {
	in, order, offset := m.GetPlacements(), m.GetOrder(), m.GetOffset()
	replicas, err := countReplicas(in, containers)
	switch {
	case err != nil:
		return err
	case len(in) != len(blocks):
		return corrupt("%d blocks and the places of %d", len(blocks), len(in))
	case len(order) > 0 && len(order) != replicas:
		return corrupt("an order of %d replicas, of which there are %d", len(order), replicas)
	}
	if n := len(l.Blocks); n > 0 && offset != l.Blocks[n-1].Offset+l.Blocks[n-1].Length {
		return corrupt("an answer that goes on at offset %d, after a block of length %d at %d", offset, l.Blocks[n-1].Length, l.Blocks[n-1].Offset)
	}
	room, sorted := make([]Replica, 0, replicas), len(order) > 0
	for i, b := range blocks {
		c, first := &containers[in[i]], len(room)
		if b.Container != c.id {
			return corrupt("a block of container %d with the place of container %d", b.Container, c.id)
		}
		if !sorted {
			room = c.appendAll(room)
		} else {
			room = c.appendOrdered(room, order[:len(c.replicas)])
			order = order[len(c.replicas):]
		}
		if len(room)-first != c.present {
			return corrupt("an order that is none of the replicas of container %d", c.id)
		}
		l.Blocks = append(l.Blocks, LocatedBlock{
			Block: b, Offset: offset, Replication: c.replication, Replicas: room[first:len(room):len(room)], Err: c.err,
			seen: c.seen, tokens: tokens, at: i,
		})
		offset += b.Length
	}
	return nil
}

// countReplicas counts the replicas of all blocks, which are in the given containers.
func countReplicas(in []uint32, containers []container) (n int, err error) {
	for _, at := range in {
		if int(at) >= len(containers) {
			return 0, corrupt("container %d of %d", at, len(containers))
		}
		n += len(containers[at].replicas)
	}
	return n, nil
}

// container is where a container is.
type container struct {
	id          uint64
	replication muster.Replication
	replicas    []Replica // as they were placed; one without a node is absent
	present     int       // of them
	seen        string
	err         error
}

// appendAll appends the replicas that are there.
func (c *container) appendAll(dst []Replica) []Replica {
	for _, r := range c.replicas {
		if r.Node != nil {
			dst = append(dst, r)
		}
	}
	return dst
}

// appendOrdered is appendAll in an order that has each replica's position once. Of another
// one fewer replicas come.
func (c *container) appendOrdered(dst []Replica, order []byte) []Replica {
	var taken [math.MaxUint8 + 1]bool
	for _, at := range order {
		if int(at) >= len(c.replicas) || taken[at] {
			continue
		}
		taken[at] = true
		if r := c.replicas[at]; r.Node != nil {
			dst = append(dst, r)
		}
	}
	return dst
}

// containersOf reads the containers of an answer.
func containersOf(m *pb.Located) ([]container, error) {
	nodes, err := rpc.NodesFromPB(m.GetNodes())
	if err != nil {
		return nil, err
	}
	containers := make([]container, len(m.GetContainers()))
	message := ""
	for i, from := range m.GetContainers() {
		if text := from.GetMessage(); text != "" {
			message = text
		}
		c := &containers[i]
		c.id, c.seen, c.err = from.GetContainer(), string(from.GetSeen()), rpc.FromStatus(from.GetCode(), message)
		if c.err == nil {
			if err := c.place(from, nodes); err != nil {
				return nil, err
			}
		}
	}
	return containers, nil
}

// place reads where the replicas are.
func (c *container) place(from *pb.LocatedContainer, nodes []muster.Node) error {
	c.replication = muster.Replication(from.GetReplication())
	_, _, coded := c.replication.Coding()
	if from.GetReplication() > math.MaxUint16 || c.replication == 0 || !c.replication.Valid() || len(from.GetNodes()) > math.MaxUint8 {
		return corrupt("container %d of replication %#x on %d nodes", c.id, from.GetReplication(), len(from.GetNodes()))
	}
	c.replicas = make([]Replica, len(from.GetNodes()))
	for i, at := range from.GetNodes() {
		if int(at) > len(nodes) {
			return corrupt("container %d on node %d of %d", c.id, at, len(nodes))
		}
		if at > 0 {
			c.replicas[i].Node = &nodes[at-1]
			c.present++
		}
		if coded {
			c.replicas[i].Index = i + 1
		}
	}
	return nil
}
