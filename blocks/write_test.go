package blocks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// sample returns n bytes that are different everywhere.
func sample(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// written writes data in one call, closes, and expects that it is there.
func (c *cluster) written(o WriteOptions, data []byte) *Writer {
	c.t.Helper()
	w := c.writer(o)
	if n, err := w.Write(data); n != len(data) || err != nil {
		c.t.Fatalf("write: %d, %v", n, err)
	}
	if err := w.Close(); err != nil {
		c.t.Fatalf("close: %v", err)
	}
	c.finish(w.Last())
	if !bytes.Equal(c.contents(true), data) {
		c.t.Fatalf("the file has other bytes than were written")
	}
	return w
}

func TestWriteOfEachSize(t *testing.T) {
	const k = muster.ChecksumBytes
	for _, size := range []int{
		0, 1, k - 1, k, k + 1, 5 * k, smallPacket, smallPacket + 1, muster.MaxTransfer - 1, muster.MaxTransfer, muster.MaxTransfer + 1,
		2<<20 - 1, 2 << 20, 2<<20 + 1, 4<<20 + 17,
	} {
		c := newCluster(t, 3, 3)
		w := c.written(WriteOptions{BlockSize: 2 << 20}, sample(size))
		if blocks := (size + 2<<20 - 1) / (2 << 20); len(c.targets) != blocks || w.Size() != int64(size) {
			t.Errorf("%d bytes: %d blocks, size %d", size, len(c.targets), w.Size())
		}
		for i, n := range c.lengths[:max(0, len(c.lengths)-1)] {
			if n != 2<<20 {
				t.Errorf("%d bytes: block %d has %d", size, i, n)
			}
		}
	}
}

// A small file takes one request of each datanode, and nothing else.
func TestSmallFileTakesOneRequest(t *testing.T) {
	c := newCluster(t, 3, 3)
	c.written(WriteOptions{}, sample(100_000))
	for i, n := range c.nodes {
		if n.calls["write"] != 1 || n.calls["commit"] != 0 || n.largest != 100_000 {
			t.Errorf("datanode %d: %v, %d bytes", i, n.calls, n.largest)
		}
	}
}

func TestFirstTargetIsUsed(t *testing.T) {
	c := newCluster(t, 3, 3)
	first, err := c.add(t.Context(), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := rpc.ClientContext(t.Context(), muster.Identity{User: "writer"})
	w := NewWriter(ctx, c.Datanodes, first, c.add, WriteOptions{})
	if _, err := w.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c.finish(w.Last())
	if got := c.contents(true); string(got) != "hello" || len(c.asked) != 1 {
		t.Errorf("%q, asked %d times", got, len(c.asked))
	}
}

func TestReadFromWritesWhatAnyReaderHas(t *testing.T) {
	data := sample(3<<20 + 5)
	broken := errors.New("broken")
	for name, r := range map[string]io.Reader{
		"plain": bytes.NewReader(data), "halves": iotest.HalfReader(bytes.NewReader(data)), "data with the end": iotest.DataErrReader(bytes.NewReader(data)),
		"failing": io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken)),
	} {
		c := newCluster(t, 3, 2)
		w := c.writer(WriteOptions{BlockSize: 1 << 20})
		n, err := w.ReadFrom(r)
		if n != int64(len(data)) || err != nil && (name != "failing" || err != broken) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if c.finish(w.Last()); !bytes.Equal(c.contents(true), data) {
			t.Errorf("%s: other bytes", name)
		}
	}
	c := newCluster(t, 1, 1)
	w := c.writer(WriteOptions{})
	if _, err := w.ReadFrom(readFunc(func([]byte) (int, error) { return 0, nil })); err != io.ErrNoProgress {
		t.Errorf("a reader that gives nothing: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestAfterCloseNothingIsWritten(t *testing.T) {
	c := newCluster(t, 1, 1)
	w := c.written(WriteOptions{}, []byte("x"))
	if _, err := w.Write([]byte("y")); err != fs.ErrClosed {
		t.Errorf("write: %v", err)
	}
	if _, err := w.ReadFrom(bytes.NewReader([]byte("y"))); err != fs.ErrClosed {
		t.Errorf("read from: %v", err)
	}
	if err := w.Close(); err != fs.ErrClosed {
		t.Errorf("close: %v", err)
	}
	if got := c.contents(true); string(got) != "x" {
		t.Errorf("%q", got)
	}
}

// TestFaultOfOneReplica: whatever one datanode does, and when, all bytes are in the file, and
// the datanode is not asked to take the rest.
func TestFaultOfOneReplica(t *testing.T) {
	data := sample(3<<20 + 100)
	for _, f := range []fault{full, damaged, closing, hang, killed, silent, lie, early} {
		for _, at := range []int{1, 2, 4} {
			c := newCluster(t, 4, 3)
			c.nodes[1].does(func(call string, n int, _ *rpc.WriteRequest) fault {
				if call == "write" && n == at {
					return f
				}
				return none
			})
			o := WriteOptions{Window: 2 << 20}
			if f == hang {
				o.Timeout = 200 * time.Millisecond
			}
			w := c.written(o, data)
			if f != hang { // under load others may miss so short a timeout
				c.readable(1)
			}
			lastFault := f == silent && at == 4 // all was durable, and is committed elsewhere
			if !lastFault && len(c.targets) < 2 {
				t.Errorf("%s at request %d: %d blocks", f, at, len(c.targets))
			}
			if f != hang && len(c.asked) > 1 && (len(c.asked[1]) != 1 || c.asked[1][0] != 1) {
				t.Errorf("%s at request %d: failed are %v", f, at, c.asked[1])
			}
			if w.Last() > w.Size() {
				t.Errorf("%s at request %d: last %d of %d", f, at, w.Last(), w.Size())
			}
		}
	}
}

// readable expects that each block, one that was cut too, is committed at its length on all of
// its datanodes but one.
func (c *cluster) readable(but muster.NodeNumber) {
	c.t.Helper()
	for i, t := range c.targets {
		for _, n := range t.Nodes {
			s := c.nodes[n.Number]
			s.mu.Lock()
			b := s.blocks[t.ID]
			s.mu.Unlock()
			if c.lengths[i] > 0 && n.Number != but && (b == nil || !b.committed || b.durable < c.lengths[i]) {
				c.t.Errorf("block %d of %d is not committed with %d bytes on datanode %d", i, len(c.targets), c.lengths[i], n.Number)
			}
		}
	}
}

// TestFaultOfAllReplicas at once: acknowledged bytes stay where they are, and with no other
// datanode there those that have failed get another chance.
func TestFaultOfAllReplicas(t *testing.T) {
	data := sample(3<<20 + 100)
	for _, f := range []fault{full, damaged, closing, silent, lie, early, refuse} {
		c := newCluster(t, 3, 3)
		for _, n := range c.nodes {
			n.does(func(call string, n int, _ *rpc.WriteRequest) fault {
				if call == "write" && n == 3 {
					return f
				}
				return none
			})
		}
		c.written(WriteOptions{Window: 2 << 20}, data)
		if len(c.targets) < 2 {
			t.Errorf("%s: %d blocks", f, len(c.targets))
		}
	}
}

// TestDatanodeThatIsDown in a cluster that has no other: the file is on the rest. It is tried
// once, and no more until it is needed.
func TestDatanodeThatIsDown(t *testing.T) {
	c := newCluster(t, 3, 3)
	c.nodes[1].kill()
	data := sample(3<<20 + 1)
	c.written(WriteOptions{BlockSize: 1 << 20}, data)
	if n := len(c.targets); n != 5 {
		t.Errorf("%d blocks", n)
	}
	for _, n := range []int{0, 2} {
		if got := c.nodes[n].calls["write"]; got < 5 {
			t.Errorf("datanode %d took %d requests", n, got)
		}
	}
}

// With too few others the datanodes that have failed are tried again.
func TestDatanodesThatComeBack(t *testing.T) {
	c := newCluster(t, 3, 3)
	for _, n := range c.nodes[:2] {
		n.does(func(_ string, n int, _ *rpc.WriteRequest) fault {
			if n <= 2 {
				return full
			}
			return none
		})
	}
	c.written(WriteOptions{}, sample(1000))
	for i, n := range c.nodes {
		committed := 0
		for _, b := range n.blocks {
			if b.committed && b.durable == 1000 {
				committed++
			}
		}
		if committed == 0 {
			t.Errorf("datanode %d has nothing", i)
		}
	}
}

// TestCommitThatFailsSomewhere is no failure, if all have all; one that fails everywhere is.
func TestCommitThatFailsSomewhere(t *testing.T) {
	for failing := 1; failing <= 3; failing++ {
		c := newCluster(t, 3, 3)
		for _, n := range c.nodes[:failing] {
			n.does(func(call string, _ int, r *rpc.WriteRequest) fault {
				if call == "commit" || r.Commit {
					return full
				}
				return none
			})
		}
		w := c.writer(WriteOptions{Window: 2 << 20})
		data := sample(2 * muster.MaxTransfer) // so that the commit comes alone
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		err := w.Close()
		c.finish(w.Last())
		if whole := failing < 3; (err == nil) != whole || !bytes.Equal(c.contents(whole), data) {
			t.Errorf("%d of 3 fail: %v", failing, err)
		}
		if len(c.targets) != 1 {
			t.Errorf("%d of 3 fail: %d blocks", failing, len(c.targets))
		}
	}
}

// A datanode that has committed, and whose answer was lost everywhere, says so when asked.
func TestCommitIsAskedForAgain(t *testing.T) {
	c := newCluster(t, 3, 3)
	for _, n := range c.nodes {
		n.does(func(call string, _ int, r *rpc.WriteRequest) fault {
			if call == "write" && r.Commit {
				return silent
			}
			return none
		})
	}
	c.written(WriteOptions{Window: 2 << 20}, sample(2*muster.MaxTransfer))
	if len(c.targets) != 1 {
		t.Errorf("%d blocks", len(c.targets))
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	c := newCluster(t, 3, 3)
	for _, n := range c.nodes {
		n.does(func(string, int, *rpc.WriteRequest) fault { return full })
	}
	w := c.writer(WriteOptions{Attempts: 3})
	if _, err := w.Write(sample(1000)); err != nil {
		t.Fatal(err)
	}
	err := w.Close()
	if !errors.Is(err, muster.ErrUnavailable) || len(c.targets) != 3 || w.Last() != 0 {
		t.Errorf("%v after %d blocks, last %d", err, len(c.targets), w.Last())
	}
	t.Log(err)
	if _, again := w.Write(nil); again != fs.ErrClosed {
		t.Errorf("write after close: %v", again)
	}
}

// After the namespace has refused another block, what is durable stays, and every call fails
// with the same error.
func TestNamespaceRefuses(t *testing.T) {
	c := newCluster(t, 3, 3)
	gone := errors.New("gone")
	c.refuse = func(asked int) error {
		if asked == 3 {
			return gone
		}
		return nil
	}
	data := sample(4 << 20)
	w := c.writer(WriteOptions{BlockSize: 1 << 20})
	_, err := w.Write(data)
	_, again := w.Write(data)
	if closed := w.Close(); !errors.Is(err, gone) || again != err || closed != err {
		t.Errorf("%v, %v, %v", err, again, closed)
	}
	c.finish(w.Last())
	if got := c.contents(false); !bytes.Equal(got, data[:2<<20]) {
		t.Errorf("%d bytes stay", len(got))
	}
}

// The end of the context ends a write that waits for a datanode that hangs.
func TestContextEndsAWrite(t *testing.T) {
	c := newCluster(t, 3, 3)
	c.nodes[0].does(func(_ string, n int, _ *rpc.WriteRequest) fault {
		if n == 2 {
			return hang
		}
		return none
	})
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(rpc.ClientContext(t.Context(), muster.Identity{User: "writer"}))
	w := NewWriter(ctx, c.Datanodes, Target{}, c.add, WriteOptions{Window: 2 << 20})
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	_, err := w.Write(sample(20 << 20))
	if closed := w.Close(); !errors.Is(err, why) || closed != err {
		t.Errorf("%v, %v", err, closed)
	}
}

// TestMemoryIsBounded: what is not durable on all replicas takes no more than the window,
// however much is written to however slow a datanode.
func TestMemoryIsBounded(t *testing.T) {
	c := newCluster(t, 3, 3)
	var w *Writer
	high := int32(0)
	c.nodes[2].does(func(string, int, *rpc.WriteRequest) fault {
		high = max(high, w.window.inUse.Load()) // the datanode's lock is held
		time.Sleep(time.Millisecond)
		return none
	})
	w = c.writer(WriteOptions{Window: 4 << 20})
	data := sample(12 << 20)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	c.finish(w.Last())
	if !bytes.Equal(c.contents(true), data) || high*muster.MaxTransfer > 4<<20 || high < 2 {
		t.Errorf("%d packets at once", high)
	}
	if left := w.window.inUse.Load(); left != 0 {
		t.Errorf("%d packets were not given back", left)
	}
}

func TestWriteOptionsAreChecked(t *testing.T) {
	for _, o := range []WriteOptions{{BlockSize: 1000}, {BlockSize: -1}, {BlockSize: 8 << 30}, {Window: 1}, {Timeout: -1}, {Attempts: -1}} {
		if err := o.Validate(); !errors.Is(err, muster.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := (WriteOptions{}).Validate(); err != nil {
		t.Error(err)
	}
}
