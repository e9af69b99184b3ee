package client_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/locations/member"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// memoryNode is a datanode that keeps blocks in memory.
type memoryNode struct {
	pb.DRPCBlocksUnimplementedServer
	port   int
	stop   func()
	writes atomic.Int64 // calls

	mu     sync.Mutex // guards what follows
	blocks map[muster.BlockID]*memoryBlock
	fail   func(write int64) error // says whether a message of the n-th call of WriteBlock fails; nil: none does
}

type memoryBlock struct {
	data      []byte
	committed bool
}

func newMemoryNode(t *testing.T) *memoryNode {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n := &memoryNode{port: lis.Addr().(*net.TCPAddr).Port, blocks: make(map[muster.BlockID]*memoryBlock)}
	s, err := rpc.NewServer(n, pb.DRPCBlocksDescription{}, rpc.ServerOptions{})
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(lis) }()
	n.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ctx) // says that calls were ended
		<-served
	})
	t.Cleanup(n.stop)
	return n
}

// fails sets which writes fail. f may wait.
func (n *memoryNode) fails(f func(write int64) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = f
}

func (n *memoryNode) failing(write int64) error {
	n.mu.Lock()
	fail := n.fail
	n.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(write)
}

// WriteBlock makes all durable that is written.
func (n *memoryNode) WriteBlock(stream pb.DRPCBlocks_WriteBlockStream) error {
	var b *memoryBlock
	for call := n.writes.Add(1); ; {
		r, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = n.failing(call)
		}
		if err != nil {
			return err
		}
		reply := n.write(&b, r)
		if !r.GetSync() && !r.GetCommit() {
			continue
		}
		if err := stream.Send(reply); err != nil || r.GetCommit() {
			return err
		}
	}
}

func (n *memoryNode) write(b **memoryBlock, r *pb.WriteRequest) *pb.WriteReply {
	n.mu.Lock()
	defer n.mu.Unlock()
	if *b == nil {
		*b = new(memoryBlock)
		n.blocks[muster.BlockID{Container: r.GetBlock().GetContainer(), LocalID: r.GetBlock().GetLocalId()}] = *b
	}
	(*b).data, (*b).committed = append((*b).data, r.GetData()...), r.GetCommit()
	return &pb.WriteReply{Durable: int64(len((*b).data)), Committed: r.GetCommit()}
}

// CommitBlock cuts and commits.
func (n *memoryNode) CommitBlock(_ context.Context, r *pb.CommitBlockRequest) (*pb.CommitBlockReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.blocks[muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}]
	if b == nil {
		return nil, muster.ErrNoData
	}
	b.data, b.committed = b.data[:r.GetLength()], true
	return &pb.CommitBlockReply{}, nil
}

// GetBlock says how long a block is.
func (n *memoryNode) GetBlock(_ context.Context, r *pb.GetBlockRequest) (*pb.GetBlockReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.blocks[muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}]
	if b == nil {
		return nil, muster.ErrNoData
	}
	return &pb.GetBlockReply{Length: int64(len(b.data)), Committed: b.committed, ChecksumBytes: muster.ChecksumBytes, ChunkBytes: muster.ChunkBytes}, nil
}

// ReadChunk reads a range, widened to whole checksums.
func (n *memoryNode) ReadChunk(_ context.Context, r *pb.ReadRequest) (*pb.ReadReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.blocks[muster.BlockID{Container: r.GetContainer(), LocalID: r.GetLocalId()}]
	if b == nil || !b.committed {
		return nil, muster.ErrNoData
	}
	from := r.GetOffset() / muster.ChecksumBytes * muster.ChecksumBytes
	to := (r.GetOffset() + r.GetLength() + muster.ChecksumBytes - 1) / muster.ChecksumBytes * muster.ChecksumBytes
	reply := &pb.ReadReply{Data: slices.Clone(b.data[from:min(to, int64(len(b.data)))]), Offset: from}
	for piece := range slices.Chunk(reply.Data, muster.ChecksumBytes) {
		reply.Checksums = binary.LittleEndian.AppendUint32(reply.Checksums, crc32.Checksum(piece, crc32.MakeTable(crc32.Castagnoli)))
	}
	return reply, nil
}

// ReadBlock streams a range in small messages.
func (n *memoryNode) ReadBlock(r *pb.ReadRequest, stream pb.DRPCBlocks_ReadBlockStream) error {
	length := r.GetLength()
	if length == 0 {
		g, err := n.GetBlock(stream.Context(), &pb.GetBlockRequest{Container: r.GetContainer(), LocalId: r.GetLocalId()})
		if err != nil {
			return err
		}
		length = g.GetLength() - r.GetOffset()
	}
	for at, end := r.GetOffset(), r.GetOffset()+length; at < end; {
		reply, err := n.ReadChunk(stream.Context(), &pb.ReadRequest{
			Container: r.GetContainer(), LocalId: r.GetLocalId(), Offset: at, Length: min(256<<10, end-at),
		})
		if err != nil {
			return err
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
		at = reply.GetOffset() + int64(len(reply.GetData()))
	}
	return nil
}

// DeleteBlocks removes blocks.
func (n *memoryNode) DeleteBlocks(_ context.Context, r *pb.DeleteBlocksRequest) (*pb.DeleteBlocksReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	reply := new(pb.DeleteBlocksReply)
	for _, b := range r.GetBlocks() {
		delete(n.blocks, muster.BlockID{Container: b.GetContainer(), LocalID: b.GetLocalId()})
		reply.Outcomes = append(reply.Outcomes, new(pb.BlockOutcome))
	}
	return reply, nil
}

// house is a server and datanodes that keep data.
type house struct {
	*instance
	nodes []*memoryNode
}

// startHouse starts a server and datanodes.
func startHouse(t *testing.T, nodes int) *house {
	t.Helper()
	return startHouseWith(t, nodes, func(*server.Options) {})
}

func startHouseWith(t *testing.T, nodes int, change func(*server.Options)) *house {
	t.Helper()
	h := &house{instance: startWith(t, change)}
	secret, err := server.ClusterKey(h.options.Dir, "", slog.New(slog.DiscardHandler))
	must(t, err)
	key, err := rpc.NewPeerKey(secret)
	must(t, err)
	pool := rpc.NewPool(h.addr(), rpc.PoolOptions{PeerKey: key, PeerRole: rpc.RoleDatanode})
	t.Cleanup(func() { _ = pool.Close() })
	for i := range nodes {
		n := newMemoryNode(t)
		m, err := member.Join(t.Context(), pool, member.Options{ID: fmt.Sprint("node-", i), Host: "127.0.0.1", Port: uint16(n.port), Rack: fmt.Sprint("/r", i)})
		must(t, err)
		t.Cleanup(func() { _ = m.Close() })
		h.nodes = append(h.nodes, n)
	}
	asking := dial(t, h.addr(), client.Options{})
	for want := (client.Counter{Name: "topology_nodes", Value: float64(nodes)}); ; {
		status, err := asking.Status(t.Context())
		must(t, err)
		if slices.Contains(status.Counters, want) {
			return h
		}
	}
}

// read returns what a file has, read from its beginning.
func read(t testing.TB, c *client.Client, path string) []byte {
	t.Helper()
	f, err := c.Open(context.Background(), path)
	must(t, err)
	b, err := io.ReadAll(f)
	must(t, errors.Join(err, f.Close()))
	return b
}

// write writes a file in one call.
func write(t testing.TB, c *client.Client, path string, o client.WriteOptions, data []byte) {
	t.Helper()
	w, err := c.CreateFile(context.Background(), path, o)
	must(t, err)
	_, err = w.Write(data)
	must(t, errors.Join(err, w.Close()))
}
