package server_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
	"github.com/muster-fs/muster/blocks/token"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// fleet is datanodes with disks, by the ports that targets name.
type fleet map[uint32]*dn

// startFleet starts a server, and three datanodes that soon tell of blocks without a commit.
func startFleet(t *testing.T, o server.Leases) (*instance, fleet) {
	t.Helper()
	in := start(t, server.Options{Locations: server.Locating{Tokens: true, Registry: quick()}, Leases: o})
	f := fleet{}
	for range 3 {
		n := startNode(t, server.DatanodeOptions{
			Dirs: []string{t.TempDir()}, Locations: in.Addr().String(), KeyFile: filepath.Join(in.folder, "cluster.key"),
			Store: store.Options{Reserve: 1 << 20}, UnfinishedAge: time.Millisecond,
		})
		f[uint32(n.Addr().(*net.TCPAddr).Port)] = n
	}
	return in, f
}

// readToken is the token for a block of an answer.
func readToken(r *pb.LocatedReply, block int) []byte {
	return token.Compose(r.Located.Grant, r.Entry.Blocks[block].Length, r.Entry.InodeId, r.Located.Macs[block*token.MACBytes:][:token.MACBytes])
}

// write sends bytes to one of a target's datanodes, which are durable there when it returns.
func (f fleet) write(ctx context.Context, t *testing.T, w *pb.WriteTarget, i int, file uint64, b []byte, commit bool) {
	t.Helper()
	list := messages(idOf(w), w.Token, file, b, commit)
	list[len(list)-1].Sync = true
	if reply, err := f[w.Nodes[i].Port].send(ctx, list...); err != nil || reply.GetDurable() != int64(len(b)) {
		t.Fatalf("write to datanode %d of the target: %v, %v", i, reply, err)
	}
}

func idOf(w *pb.WriteTarget) muster.BlockID {
	return muster.BlockID{Container: w.Block.Container, LocalID: w.Block.LocalId}
}

// TestARecoveryOverDatanodes: what all of them have is the file, and each can be read.
func TestARecoveryOverDatanodes(t *testing.T) {
	in, nodes := startFleet(t, server.Leases{Lease: 2 * time.Second})
	p := in.newPen(t, "")
	s := p.start("/f", nil)
	b := data(1, 300_000)
	for i, length := range []int{300_000, 200_000, 250_000} {
		if _, err := in.RenewLeases(p.ctx, &pb.RenewLeasesRequest{Client: p.client}); err != nil {
			t.Fatal(err)
		}
		nodes.write(p.ctx, t, s.Target, i, s.File, b[:length], false)
	}
	eventually(t, "the file is recovered", func() bool { return in.entry(t, "/f").Flags&muster.FlagWriting == 0 })
	r, err := in.Open(p.ctx, &pb.OpenRequest{Path: []byte("/f")})
	if err != nil || r.Entry.Length != 200_000 || len(r.Entry.Blocks) != 1 {
		t.Fatalf("open: %v, %v", r, err)
	}
	for _, n := range nodes {
		got, err := n.get(p.ctx, idOf(s.Target), readToken(r, 0), 0, 200_000)
		if err != nil || !bytes.Equal(got, b[:200_000]) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
}

// TestCopiesOnDatanodesAreSettled: one that missed the commit is committed, and the blocks of a deleted
// file go from all.
func TestCopiesOnDatanodesAreSettled(t *testing.T) {
	in, nodes := startFleet(t, server.Leases{Unfinished: 100 * time.Millisecond})
	p := in.newPen(t, "")
	s := p.start("/f", nil)
	b := data(2, 100_000)
	for i := range 3 {
		nodes.write(p.ctx, t, s.Target, i, s.File, b, i > 0)
	}
	if _, err := p.finish(s.File, 100_000, ""); err != nil {
		t.Fatal(err)
	}
	r, err := in.Open(p.ctx, &pb.OpenRequest{Path: []byte("/f")})
	if err != nil {
		t.Fatal(err)
	}
	first := nodes[s.Target.Nodes[0].Port]
	eventually(t, "the copy without a commit is readable", func() bool {
		got, err := first.get(p.ctx, idOf(s.Target), readToken(r, 0), 0, 100_000)
		return err == nil && bytes.Equal(got, b)
	})
	in.apply(t, muster.Delete{Path: "/f"})
	eventually(t, "the block is deleted", func() bool { return in.counter(t, "blocks_deleted") == 1 })
	for _, n := range nodes {
		_, err := n.GetBlock(p.ctx, &pb.GetBlockRequest{Container: s.Target.Block.Container, LocalId: s.Target.Block.LocalId, Token: readToken(r, 0)})
		wantCode(t, err, muster.ErrNoData)
	}
}
