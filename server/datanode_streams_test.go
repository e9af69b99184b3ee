package server_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// await waits until a counter of the datanode has a value.
func (n *dn) await(t *testing.T, name string, value float64) {
	t.Helper()
	other := reach(t, n.Datanode)
	defer func() { _ = other.pool.Close() }()
	for end := time.Now().Add(time.Minute); ; {
		s, err := other.DatanodeStatus(as(t, "ann"), &pb.DatanodeStatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Counters {
			if c.Name == name && c.Value == value {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not %v: %v", name, value, s.Counters)
		}
	}
}

// large is a block that does not fit into the buffers of a connection.
const large = 24 << 20

func startWithLarge(t *testing.T, change func(*server.DatanodeOptions)) (*dn, muster.BlockID, []byte) {
	t.Helper()
	o := datanodeOptions(blockCluster(t, false), t.TempDir())
	if change != nil {
		change(&o)
	}
	n := startNode(t, o)
	id, b := muster.BlockID{Container: 1, LocalID: 1}, data(1, large)
	n.put(as(t, "ann"), t, id, nil, 1, b)
	return n, id, b
}

func TestACancelledStreamEndsAndItsConnectionStays(t *testing.T) {
	n, id, b := startWithLarge(t, nil)
	for i := range 5 {
		ctx, cancel := context.WithCancel(as(t, "ann"))
		s, err := rpc.ReadBlock(ctx, n.pool, &rpc.ReadRequest{Block: id})
		if err != nil {
			t.Fatal(err)
		}
		var reply rpc.ReadReply
		for range i {
			if err := s.Receive(&reply); err != nil {
				t.Fatal(err)
			}
		}
		reply.Release()
		cancel()
		_ = s.Close()
		if got, err := n.get(as(t, "ann"), id, nil, 5, 1000); err != nil || !bytes.Equal(got, b[5:1005]) {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
		n.await(t, "blocks_streams", 0)
	}
	if got, err := n.stream(as(t, "ann"), id, nil, 12345, 0); err != nil || !bytes.Equal(got, b[12345:]) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

// A client that receives no more is cut off after the stall timeout.
func TestAStalledReaderIsEnded(t *testing.T) {
	n, id, _ := startWithLarge(t, func(o *server.DatanodeOptions) { o.RPC.StallTimeout = 200 * time.Millisecond })
	s, err := rpc.ReadBlock(as(t, "ann"), n.pool, &rpc.ReadRequest{Block: id})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var reply rpc.ReadReply
	if err := s.Receive(&reply); err != nil {
		t.Fatal(err)
	}
	n.await(t, "blocks_streams", 0)
	for err == nil {
		err = s.Receive(&reply)
	}
	if err == io.EOF {
		t.Error("a stream that was cut off has ended well")
	}
}

// breakable makes connections that a test closes under their user.
type breakable struct{ conns []net.Conn }

func (b *breakable) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	b.conns = append(b.conns, nc)
	return nc, err
}

func TestAVanishedWriterLeavesNothingOpen(t *testing.T) {
	n := startNode(t, datanodeOptions(blockCluster(t, false), t.TempDir()))
	const writers = 10
	for i := range writers {
		var dialed breakable
		p := rpc.NewPool(n.Addr().String(), rpc.PoolOptions{Dial: dialed.dial})
		s, err := rpc.WriteBlock(as(t, "ann"), p)
		if err != nil {
			t.Fatal(err)
		}
		list := messages(muster.BlockID{Container: 1, LocalID: uint64(i + 1)}, nil, 3, data(1, 3*muster.MaxTransfer), false)
		list[0].Sync = true
		for j := range list {
			if err := s.Send(&list[j]); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := s.Receive(); err != nil || r.Durable < muster.MaxTransfer {
			t.Fatalf("got %v, %v", r, err)
		}
		_ = dialed.conns[0].Close()
		_ = s.Close()
		_ = p.Close()
	}
	n.await(t, "blocks_writers", 0)
	list, err := n.list(as(t, "ann"), 1)
	if err != nil || len(list) != writers {
		t.Fatalf("got %v, %v", list, err)
	}
	for _, l := range list {
		if l.Committed || l.Length < muster.MaxTransfer {
			t.Errorf("got %v", l)
		}
	}
}

func TestWritersAreBounded(t *testing.T) {
	o := datanodeOptions(blockCluster(t, false), t.TempDir())
	o.Writers = 1
	n := startNode(t, o)
	ctx, id := as(t, "ann"), muster.BlockID{Container: 1, LocalID: 1}
	open := reach(t, n.Datanode)
	defer func() { _ = open.pool.Close() }()
	s, err := rpc.WriteBlock(ctx, open.pool)
	if err != nil {
		t.Fatal(err)
	}
	first := messages(id, nil, 3, data(1, 1000), false)[0]
	first.Sync = true
	if err := s.Send(&first); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Receive(); err != nil {
		t.Fatal(err)
	}
	id.LocalID++
	_, err = n.send(ctx, messages(id, nil, 3, data(1, 1000), true)...)
	wantCode(t, err, muster.ErrUnavailable)
	_ = s.Close()
	n.await(t, "blocks_writers", 0)
	n.put(ctx, t, id, nil, 3, data(1, 1000))
}

// A stop ends who writes, with what is durable, and who reads.
func TestAStopEndsStreams(t *testing.T) {
	n, id, _ := startWithLarge(t, nil)
	ctx := as(t, "ann")
	reader, writer := reach(t, n.Datanode), reach(t, n.Datanode)
	defer func() { _, _ = reader.pool.Close(), writer.pool.Close() }()
	r, err := rpc.ReadBlock(ctx, reader.pool, &rpc.ReadRequest{Block: id})
	if err != nil {
		t.Fatal(err)
	}
	var reply rpc.ReadReply
	if err := r.Receive(&reply); err != nil {
		t.Fatal(err)
	}
	w, err := rpc.WriteBlock(ctx, writer.pool)
	if err != nil {
		t.Fatal(err)
	}
	first := messages(muster.BlockID{Container: 1, LocalID: 2}, nil, 3, data(1, 1000), false)[0]
	first.Sync = true
	if err := w.Send(&first); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Receive(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		stopped <- n.Shutdown(ctx)
	}()
	_, err = w.Receive()
	wantCode(t, err, muster.ErrUnavailable)
	for err = nil; err == nil; {
		err = r.Receive(&reply)
	}
	wantCode(t, err, muster.ErrUnavailable)
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
}
