package server

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// content is what there is of a container, as its datanodes list it.
type content struct {
	id      uint64
	page    uint64 // of the check's pages: when the datanodes were asked
	unknown bool   // the location service does not know the container
	on      []contentOn
}

// contentOn is what a datanode has of a container.
type contentOn struct {
	node   muster.Node
	silent error    // why it is not known what it has; nil: it is
	blocks []listed // by local id
}

// find returns a block of the container.
func (l *contentOn) find(localID uint64) (listed, bool) {
	i, ok := slices.BinarySearchFunc(l.blocks, localID, func(b listed, id uint64) int { return cmp.Compare(b.localID, id) })
	if !ok {
		return listed{}, false
	}
	return l.blocks[i], true
}

func (l *content) size() (n int) {
	for i := range l.on {
		n += len(l.on[i].blocks)
	}
	return n + 1
}

const (
	listTime = time.Minute     // a datanode may take to list a container
	silence  = 5 * time.Minute // for so long a datanode that gave no answer is not asked again
	// keptListed bounds the blocks in contents that are kept, of 24 bytes each on each datanode. One container
	// is kept in any case.
	keptListed = 1 << 20
)

// contents keeps those that were used last, since files that were written together have their blocks
// in the same containers. It is for one goroutine.
type contents struct {
	service service
	nodes   datanodes
	bound   int // blocks

	kept   map[uint64]*list.Element
	order  list.List // of *content, the one that was used last first
	blocks int       // in all of them
	silent map[muster.NodeNumber]silentNode
}

// silentNode is a datanode that gave no answer.
type silentNode struct {
	err   error
	until time.Time
}

func newContents(s service, d datanodes) *contents {
	return &contents{service: s, nodes: d, bound: keptListed, kept: map[uint64]*list.Element{}, silent: map[muster.NodeNumber]silentNode{}}
}

// of returns the content of a container, which is at least as young as a page.
func (l *contents) of(ctx context.Context, container, page, atLeast uint64) (*content, error) {
	if e := l.kept[container]; e != nil {
		if k := e.Value.(*content); k.page >= atLeast {
			l.order.MoveToFront(e)
			return k, nil
		}
		l.drop(e)
	}
	k, err := l.ask(ctx, container)
	if err != nil {
		return nil, err
	}
	k.page = page
	l.blocks += k.size()
	l.kept[container] = l.order.PushFront(k)
	for l.blocks > l.bound && l.order.Len() > 1 {
		l.drop(l.order.Back())
	}
	return k, nil
}

func (l *contents) drop(e *list.Element) {
	k := l.order.Remove(e).(*content)
	delete(l.kept, k.id)
	l.blocks -= k.size()
}

// ask asks all that may have a container, at once.
func (l *contents) ask(ctx context.Context, container uint64) (*content, error) {
	k := &content{id: container}
	nodes, err := replicas(ctx, l.service, container)
	if errors.Is(err, muster.ErrNotFound) {
		k.unknown = true
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	k.on = make([]contentOn, len(nodes))
	var group errgroup.Group
	for i := range nodes {
		on := &k.on[i]
		on.node = nodes[i]
		if on.silent = l.knownSilent(&on.node); on.silent != nil {
			continue
		}
		group.Go(func() error {
			on.blocks, on.silent = l.list(ctx, &on.node, container)
			return nil
		})
	}
	_ = group.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i := range k.on {
		if on := &k.on[i]; on.silent != nil {
			l.note(on)
		}
	}
	return k, nil
}

// list asks a datanode. One without the container has no blocks of it.
func (l *contents) list(ctx context.Context, n *muster.Node, container uint64) ([]listed, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	blocks, err := l.nodes.ListBlocks(ctx, n, container)
	if errors.Is(err, muster.ErrNotFound) || errors.Is(err, muster.ErrNoData) {
		return nil, nil
	}
	return blocks, err
}

// knownSilent says why a datanode is not to be asked; nil: it is.
func (l *contents) knownSilent(n *muster.Node) error {
	if n.State == muster.Dead {
		return fmt.Errorf("datanode %s at %s is dead", n.ID, address(n))
	}
	if s := l.silent[n.Number]; time.Now().Before(s.until) {
		return s.err
	}
	return nil
}

// note remembers a datanode that gave no answer. One that answers with an error may do better with
// another container.
func (l *contents) note(on *contentOn) {
	var answer *rpc.Error
	if s := l.silent[on.node.Number]; on.node.State == muster.Dead || time.Now().Before(s.until) || errors.As(on.silent, &answer) {
		return
	}
	l.silent[on.node.Number] = silentNode{on.silent, time.Now().Add(silence)}
}
