package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/blocks/store"
)

// ordered are datanodes of one cluster.
type ordered struct {
	t     *testing.T
	nodes []*Datanode
}

func startOrdered(t *testing.T, count int, tokens bool) *ordered {
	t.Helper()
	s, err := Start(t.Context(), Options{
		Dir: t.TempDir(), Locations: Locating{Tokens: tokens},
		Datanodes: LocalDatanodes{Count: count, Options: DatanodeOptions{Store: store.Options{Reserve: 1 << 20}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(t.Context()); err != nil && !errors.Is(err, muster.ErrCancelled) {
			t.Error(err)
		}
	})
	return &ordered{t, s.LocalDatanodes()}
}

// write writes a block to a datanode's store.
func (o *ordered) write(i int, id muster.BlockID, b []byte, commit bool) {
	o.t.Helper()
	w, err := o.nodes[i].blocks.Create(id, 7)
	for at := 0; err == nil && at < len(b); at += muster.MaxTransfer {
		part := b[at:min(len(b), at+muster.MaxTransfer)]
		var sums []byte
		for rest := part; len(rest) > 0; rest = rest[min(len(rest), muster.ChecksumBytes):] {
			sums = binary.LittleEndian.AppendUint32(sums, crc32.Checksum(rest[:min(len(rest), muster.ChecksumBytes)], crc32.MakeTable(crc32.Castagnoli)))
		}
		err = w.Write(int64(at), part, sums)
	}
	if err == nil && commit {
		err = w.Commit()
	} else if err == nil {
		_, err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		o.t.Fatal(err)
	}
}

// order has a datanode carry out an order to copy.
func (o *ordered) copy(to int, container uint64, closed bool, from ...muster.Node) error {
	d := o.nodes[to]
	options := DatanodeOptions{}.withDefaults()
	orders := newNodeOrders(d, &options)
	return orders.carryOut(o.t.Context(), muster.Order{ID: 1, Kind: muster.OrderCopy, Container: container, Sources: from, Closed: closed})
}

func (o *ordered) node(i int) muster.Node {
	a := o.nodes[i].Addr().(*net.TCPAddr)
	return muster.Node{ID: o.nodes[i].id, Host: a.IP.String(), Port: uint16(a.Port)}
}

func (o *ordered) wantBlock(i int, id muster.BlockID, want []byte) {
	o.t.Helper()
	got := make([]byte, len(want))
	n, _, err := o.nodes[i].blocks.Read(id, 0, got, nil)
	if err != nil || n != len(want) || !bytes.Equal(got, want) {
		o.t.Errorf("block %v: %d bytes, %v", id, n, err)
	}
}

func TestAContainerIsCopied(t *testing.T) {
	for _, tokens := range []bool{false, true} {
		o := startOrdered(t, 2, tokens)
		big := bytes.Repeat([]byte("some data"), 300_000)
		id := func(local uint64) muster.BlockID { return muster.BlockID{Container: 5, LocalID: local} }
		o.write(0, id(1), big, true)
		o.write(0, id(2), nil, true)
		o.write(0, id(3), []byte("unfinished"), false)
		o.write(0, id(4), []byte("deleted there"), true)
		o.write(0, id(5), []byte("there already"), true)
		o.write(1, id(5), []byte("there already"), true)
		if err := o.nodes[1].blocks.Delete(id(4)); err != nil {
			t.Fatal(err)
		}
		away := o.node(0)
		away.Port, away.ID = 1, "away"
		if err := o.copy(1, 5, false, away); !errors.Is(err, muster.ErrUnavailable) {
			t.Errorf("from nobody: %v", err)
		}
		for range 2 { // again is nothing new
			if err := o.copy(1, 5, true, away, o.node(0)); err != nil {
				t.Fatal(err)
			}
		}
		o.wantBlock(1, id(1), big)
		o.wantBlock(1, id(2), nil)
		o.wantBlock(1, id(5), []byte("there already"))
		for _, local := range []uint64{3, 4} {
			if info, err := o.nodes[1].blocks.Stat(id(local)); !errors.Is(err, muster.ErrNoData) {
				t.Errorf("block %d was copied: %v, %v", local, info, err)
			}
		}
		if all := o.nodes[1].blocks.Containers(); len(all) != 1 || !all[0].Closed || all[0].Blocks != 3 {
			t.Errorf("containers are %+v", all)
		}
		if err := o.copy(1, 6, true, o.node(0)); !errors.Is(err, muster.ErrNotFound) {
			t.Errorf("of a container that nobody has: %v", err)
		}
	}
}

// What does not match its checksums is not copied, and can be when a source has it.
func TestDamagedBlocksAreNotCopied(t *testing.T) {
	o := startOrdered(t, 3, false)
	id, b := muster.BlockID{Container: 5, LocalID: 1}, bytes.Repeat([]byte("some data"), 10_000)
	o.write(0, id, b, true)
	o.write(2, id, b, true)
	damage(t, o.nodes[0].blocks.Disks()[0].Name, b)
	if err := o.copy(1, 5, false, o.node(0)); !errors.Is(err, muster.ErrCorrupt) {
		t.Errorf("from a damaged source: %v", err)
	}
	if info, err := o.nodes[1].blocks.Stat(id); err == nil {
		t.Errorf("it is there: %+v", info)
	}
	if err := o.copy(1, 5, false, o.node(0), o.node(2)); err != nil {
		t.Fatal(err)
	}
	o.wantBlock(1, id, b)
}

func TestAContainerIsDropped(t *testing.T) {
	o := startOrdered(t, 1, false)
	o.write(0, muster.BlockID{Container: 5, LocalID: 1}, []byte("x"), true)
	options := DatanodeOptions{}.withDefaults()
	orders := newNodeOrders(o.nodes[0], &options)
	for range 2 {
		if err := orders.carryOut(t.Context(), muster.Order{ID: 2, Kind: muster.OrderDrop, Container: 5}); err != nil {
			t.Fatal(err)
		}
	}
	if all := o.nodes[0].blocks.Containers(); len(all) != 0 {
		t.Errorf("containers are %+v", all)
	}
	if err := orders.carryOut(t.Context(), muster.Order{ID: 3, Kind: 9}); !errors.Is(err, muster.ErrInvalid) {
		t.Errorf("an order of a newer version: %v", err)
	}
}

func TestThePaceIsKept(t *testing.T) {
	p := pace{rate: 1000}
	now := time.Now()
	for i, want := range []time.Duration{0, time.Second, 1500 * time.Millisecond} {
		if got := p.take([]int{1000, 500, 1}[i], now); got != want {
			t.Errorf("wait %d is %v, want %v", i, got, want)
		}
	}
	if got := p.take(1, now.Add(time.Minute)); got != 0 {
		t.Errorf("after a pause: %v", got)
	}
}

// damage changes a byte of a block's file, which is found by its content.
func damage(t *testing.T, dir string, content []byte) {
	t.Helper()
	done := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || done {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(b, content) {
			return err
		}
		done = true
		b[len(b)/2] ^= 1
		return os.WriteFile(path, b, 0o600)
	})
	if err != nil || !done {
		t.Fatalf("no file has the block: %v", err)
	}
}

// TestACopyUnderWayUndoesNoDeletion, whether the block, or even its container, was there when it was
// deleted, or not yet.
func TestACopyUnderWayUndoesNoDeletion(t *testing.T) {
	o := startOrdered(t, 2, true)
	b := bytes.Repeat([]byte("some data"), 30_000)
	for container := uint64(1); container <= 30; container++ {
		id := muster.BlockID{Container: container, LocalID: 1}
		o.write(0, id, b, true)
		var copying sync.WaitGroup
		if container%3 > 0 { // else it comes after
			copying.Go(func() { _ = o.copy(1, container, true, o.node(0)) })
		}
		for _, at := range []int{1, 0} {
			if err := o.nodes[at].blocks.Delete(id); err != nil {
				t.Error(err)
			}
		}
		copying.Wait()
		_ = o.copy(1, container, true, o.node(0))
		for i, n := range o.nodes {
			if info, err := n.blocks.Stat(id); err == nil {
				t.Fatalf("datanode %d has block %v: %+v", i, id, info)
			}
		}
	}
}
