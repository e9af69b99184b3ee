package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// dn is a datanode of a cluster, and a client's one connection to it.
type dn struct {
	*server.Datanode
	pb.DRPCBlocksClient
	pool  *rpc.Pool
	dials *atomic.Int64
}

// blockCluster is a server with its location service, for datanodes of a test.
func blockCluster(t *testing.T, tokens bool) *instance {
	t.Helper()
	return start(t, server.Options{Locations: server.Locating{Tokens: tokens}})
}

// datanodeOptions are those of a datanode of a cluster, whose tests have little space.
func datanodeOptions(in *instance, dir string) server.DatanodeOptions {
	return server.DatanodeOptions{
		Dirs: []string{dir}, Locations: in.Addr().String(), KeyFile: filepath.Join(in.folder, "cluster.key"), Store: store.Options{Reserve: 1 << 20},
	}
}

// startNode starts a datanode that is stopped when the test ends.
func startNode(t *testing.T, o server.DatanodeOptions) *dn {
	t.Helper()
	d, err := server.StartDatanode(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	n := reach(t, d)
	t.Cleanup(func() { n.stop(t) })
	return n
}

// reach makes a client of a datanode that has one connection.
func reach(t *testing.T, d *server.Datanode) *dn {
	t.Helper()
	n := &dn{Datanode: d, dials: new(atomic.Int64)}
	n.pool = rpc.NewPool(d.Addr().String(), rpc.PoolOptions{MaxConnections: 1, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		n.dials.Add(1)
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", addr)
	}})
	n.DRPCBlocksClient = pb.NewDRPCBlocksClient(n.pool)
	return n
}

// stop stops the datanode, which has no calls in progress.
func (n *dn) stop(t *testing.T) {
	t.Helper()
	_ = n.pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		t.Errorf("shutdown of a datanode: %v", err)
	}
}

// data is n random bytes, the same for each seed.
func data(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return b
}

// sums are the checksums of data.
func sums(b []byte) (list []byte) {
	for len(b) > 0 {
		n := min(len(b), muster.ChecksumBytes)
		list = binary.LittleEndian.AppendUint32(list, crc32.Checksum(b[:n], crc32.MakeTable(crc32.Castagnoli)))
		b = b[n:]
	}
	return list
}

// messages are the messages that write a block: the first names it.
func messages(id muster.BlockID, token []byte, file uint64, b []byte, commit bool) (list []rpc.WriteRequest) {
	r := rpc.WriteRequest{Block: id, Token: token, File: file}
	for at := 0; at == 0 || at < len(b); at += muster.MaxTransfer {
		r.Data = b[at:min(len(b), at+muster.MaxTransfer)]
		r.Checksums, r.Offset = sums(r.Data), int64(at)
		list = append(list, r)
		r = rpc.WriteRequest{}
	}
	list[len(list)-1].Commit = commit
	return list
}

// send makes a call of WriteBlock that sends messages, and returns the last reply and how the
// call ended; nil is well.
func (n *dn) send(ctx context.Context, list ...rpc.WriteRequest) (last *pb.WriteReply, err error) {
	s, err := rpc.WriteBlock(ctx, n.pool)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	for i := range list {
		if err := s.Send(&list[i]); err != nil {
			break // receiving tells why
		}
	}
	_ = s.CloseSend()
	for {
		reply, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = reply
	}
}

// put writes a block and commits it.
func (n *dn) put(ctx context.Context, t *testing.T, id muster.BlockID, token []byte, file uint64, b []byte) {
	t.Helper()
	reply, err := n.send(ctx, messages(id, token, file, b, true)...)
	if err != nil || !reply.GetCommitted() || reply.GetDurable() != int64(len(b)) {
		t.Fatalf("write block %v: %v, %v", id, reply, err)
	}
}

// get reads a range of a block by chunk, and verifies it.
func (n *dn) get(ctx context.Context, id muster.BlockID, token []byte, offset, length int64) ([]byte, error) {
	var reply rpc.ReadReply
	defer reply.Release()
	if err := rpc.ReadChunk(ctx, n.pool, &rpc.ReadRequest{Block: id, Token: token, Offset: offset, Length: length}, &reply); err != nil {
		return nil, err
	}
	return verified(&reply, offset, length)
}

// verified returns what was asked for of a reply that has more.
func verified(reply *rpc.ReadReply, offset, length int64) ([]byte, error) {
	switch {
	case !bytes.Equal(reply.Checksums, sums(reply.Data)):
		return nil, errors.New("the checksums are not those of the data")
	case reply.Offset%muster.ChecksumBytes != 0 || reply.Offset > offset:
		return nil, errors.New("the data is elsewhere")
	}
	b := reply.Data[min(offset-reply.Offset, int64(len(reply.Data))):]
	return bytes.Clone(b[:min(length, int64(len(b)))]), nil
}

// stream reads a range by stream.
func (n *dn) stream(ctx context.Context, id muster.BlockID, token []byte, offset, length int64) ([]byte, error) {
	s, err := rpc.ReadBlock(ctx, n.pool, &rpc.ReadRequest{Block: id, Token: token, Offset: offset, Length: length})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }()
	var all rpc.ReadReply
	for first := true; ; first = false {
		var reply rpc.ReadReply
		err := s.Receive(&reply)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if first {
			all.Offset = reply.Offset
		} else if reply.Offset != all.Offset+int64(len(all.Data)) {
			return nil, errors.New("a message does not follow the one before")
		}
		all.Data, all.Checksums = append(all.Data, reply.Data...), append(all.Checksums, reply.Checksums...)
		reply.Release()
	}
	if length == 0 {
		length = muster.MaxBlockSize
	}
	return verified(&all, offset, length)
}

// logBuffer is a log that is looked at.
type logBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.text.Bytes())
}
