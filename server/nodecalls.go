package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
)

// datanodes are the calls to datanodes that the server's own work makes. nodePools makes them; tests
// script them.
type datanodes interface {
	// GetBlock says how long a block is on a datanode: ErrNotFound or ErrNoData if it is not there.
	GetBlock(ctx context.Context, n *muster.Node, b blockOfFile) (stored, error)
	// CommitBlock makes a block readable, cut to a length of at most what is durable of it.
	CommitBlock(ctx context.Context, n *muster.Node, b blockOfFile, length int64) error
	// DeleteBlocks deletes blocks, each with an outcome of its own.
	DeleteBlocks(ctx context.Context, n *muster.Node, blocks []blockOfFile, d deletion) ([]error, error)
	// ListBlocks returns the blocks of a container, by local id: ErrNotFound if it is not there.
	ListBlocks(ctx context.Context, n *muster.Node, container uint64) ([]listed, error)
	// Scrub has a datanode read all its blocks again; false: that is going on already.
	Scrub(ctx context.Context, n *muster.Node) (started bool, err error)
	// ScrubState says how far that is.
	ScrubState(ctx context.Context, n *muster.Node) (*pb.ScrubState, error)
}

// deletion is how blocks are deleted.
type deletion uint8

const (
	forGood deletion = iota // the datanode takes no copy of them afterwards
	again                   // it does: they have no commit there, and a whole one elsewhere
)

// stored is what a datanode has of a block.
type stored struct {
	length    int64 // durable bytes
	committed bool
}

const (
	nodeConnections = 4 // to one datanode
	nodeDial        = 3 * time.Second
	nodeIdle        = time.Minute // after which connections are closed, and then their pool
)

// nodePools makes calls to datanodes: it has a small pool of connections for each address, which
// goes when it has not been used for a time. Its calls carry tokens of the server's own.
type nodePools struct {
	keys *blockKeys

	mu     sync.Mutex // guards what follows; not held while a pool is closed or a call is made
	pools  map[string]*nodePool
	looked time.Time // for idle pools
}

// nodePool is a pool, and who uses it. Its owner's mu guards the rest.
type nodePool struct {
	*rpc.Pool
	calls int
	used  time.Time
}

func newNodePools(k *blockKeys) *nodePools { return &nodePools{keys: k, pools: map[string]*nodePool{}} }

var _ datanodes = (*nodePools)(nil)

// close ends all connections. There are no calls any more.
func (p *nodePools) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, pool := range p.pools {
		errs = append(errs, pool.Close())
	}
	clear(p.pools)
	return errors.Join(errs...)
}

// call makes a call to a datanode, as the server.
func (p *nodePools) call(ctx context.Context, n *muster.Node, f func(context.Context, pb.DRPCBlocksClient) error) error {
	address := net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port)))
	pool, idle := p.use(address)
	for _, old := range idle {
		_ = old.Close() // nobody uses it, so nothing is lost
	}
	defer p.release(pool)
	err := f(rpc.ClientContext(ctx, muster.Identity{User: serverUser, Groups: []string{muster.Supergroup}}), pb.NewDRPCBlocksClient(pool.Pool))
	if err != nil {
		return fmt.Errorf("datanode %s at %s: %w", n.ID, address, err)
	}
	return nil
}

// use returns the pool of an address, and those that nobody has used for long, to be closed.
func (p *nodePools) use(address string) (pool *nodePool, idle []*nodePool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if pool = p.pools[address]; pool == nil {
		pool = &nodePool{Pool: rpc.NewPool(address, rpc.PoolOptions{MaxConnections: nodeConnections, DialTimeout: nodeDial, IdleTimeout: nodeIdle})}
		p.pools[address] = pool
	}
	pool.calls++
	if now.Sub(p.looked) < nodeIdle {
		return pool, nil
	}
	p.looked = now
	for a, other := range p.pools {
		if other.calls == 0 && now.Sub(other.used) > nodeIdle {
			delete(p.pools, a)
			idle = append(idle, other)
		}
	}
	return pool, idle
}

func (p *nodePools) release(pool *nodePool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pool.calls--
	pool.used = time.Now()
}

func (p *nodePools) GetBlock(ctx context.Context, n *muster.Node, b blockOfFile) (s stored, err error) {
	sign, err := p.keys.signer(serverUser, token.Read)
	if err != nil {
		return s, err
	}
	err = p.call(ctx, n, func(ctx context.Context, c pb.DRPCBlocksClient) error {
		reply, err := c.GetBlock(ctx, &pb.GetBlockRequest{Container: b.Container, LocalId: b.LocalID, Token: sign.token(b, muster.MaxBlockSize)})
		s = stored{reply.GetLength(), reply.GetCommitted()}
		if err == nil && (s.length < 0 || s.length > muster.MaxBlockSize) {
			err = fmt.Errorf("%w: block %v of %d bytes", muster.ErrCorrupt, b.BlockID, s.length)
		}
		return err
	})
	return s, err
}

func (p *nodePools) CommitBlock(ctx context.Context, n *muster.Node, b blockOfFile, length int64) error {
	sign, err := p.keys.signer(serverUser, token.Write)
	if err != nil {
		return err
	}
	return p.call(ctx, n, func(ctx context.Context, c pb.DRPCBlocksClient) error {
		_, err := c.CommitBlock(ctx, &pb.CommitBlockRequest{
			Container: b.Container, LocalId: b.LocalID, Token: sign.token(b, muster.MaxBlockSize), Length: length,
		})
		return err
	})
}

func (p *nodePools) DeleteBlocks(ctx context.Context, n *muster.Node, blocks []blockOfFile, d deletion) (outcomes []error, err error) {
	sign, err := p.keys.signer(serverUser, token.Delete)
	if err != nil {
		return nil, err
	}
	q := &pb.DeleteBlocksRequest{Blocks: make([]*pb.BlockDeletion, len(blocks))}
	for i, b := range blocks {
		q.Blocks[i] = &pb.BlockDeletion{Container: b.Container, LocalId: b.LocalID, Token: sign.token(b, muster.MaxBlockSize), Again: d == again}
	}
	err = p.call(ctx, n, func(ctx context.Context, c pb.DRPCBlocksClient) error {
		reply, err := c.DeleteBlocks(ctx, q)
		if err != nil {
			return err
		}
		if got := len(reply.GetOutcomes()); got != len(blocks) {
			return fmt.Errorf("%w: %d outcomes for %d blocks", muster.ErrCorrupt, got, len(blocks))
		}
		outcomes = make([]error, len(blocks))
		for i, o := range reply.Outcomes {
			outcomes[i] = rpc.FromStatus(o.GetCode(), o.GetMessage())
		}
		return nil
	})
	return outcomes, err
}
