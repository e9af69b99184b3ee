package blocks

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
)

// TestWriterModel writes files in pieces of any size to datanodes that fail in any way at any
// time. Whatever happens: if Close says that the file is written, it has what was written.
// If not, what the namespace believes is the beginning of that, and is durable on all
// datanodes that it names.
func TestWriterModel(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 40
	}
	ignore := goleak.IgnoreCurrent()
	defer func() { goleak.VerifyNone(t, ignore) }()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var next, written atomic.Int64
	var workers sync.WaitGroup
	for range 8 { // they wait most of the time
		workers.Go(func() {
			for round := next.Add(1); round <= int64(rounds) && !t.Failed(); round = next.Add(1) {
				if modelRound(t, seed, uint64(round)) {
					written.Add(1)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d of %d files were written", written.Load(), rounds)
}

// faults are those that a model round may have, the frequent ones more often.
var faults = []fault{full, full, damaged, closing, hang, killed, silent, silent, lie, early, refuse}

func modelRound(t *testing.T, seed, round uint64) bool {
	r := rand.New(rand.NewPCG(seed, round))
	c := makeCluster(t, 3+r.IntN(4), 1+r.IntN(3))
	defer c.end()
	unlucky := r.IntN(4)
	for _, n := range c.nodes {
		// Of its own, since datanodes ask at any time.
		r := rand.New(rand.NewPCG(seed^uint64(n.node.Number+1), round))
		n.does(func(string, int, *rpc.WriteRequest) fault {
			if r.IntN(100) < 6*unlucky {
				return faults[r.IntN(len(faults))]
			}
			return none
		})
	}
	if r.IntN(4) == 0 {
		c.refuse = func(asked int) error {
			if asked%3 == 0 {
				return muster.ErrUnavailable
			}
			return nil
		}
	}
	data := sample(r.IntN(1 << (10 + r.IntN(12))))
	w := c.writer(WriteOptions{
		BlockSize: muster.ChecksumBytes << r.IntN(8), Window: minWindow, Attempts: 1 + r.IntN(8),
		Timeout: time.Duration(30+r.IntN(100)) * time.Millisecond,
	})
	err := writeAll(r, w, data)
	closeErr := w.Close()
	if err != nil && closeErr != err {
		t.Errorf("write failed with %v, close with %v", err, closeErr)
	}
	c.finish(w.Last())
	got := c.contents(closeErr == nil)
	if closeErr == nil && !bytes.Equal(got, data) || !bytes.HasPrefix(data, got) {
		t.Errorf("round %d: %d bytes were written, %d are there: %v", round, len(data), len(got), closeErr)
	}
	if left := w.window.inUse.Load(); left != 0 {
		t.Errorf("%d packets were not given back", left)
	}
	return closeErr == nil
}

// writeAll writes data in pieces, in one of the ways that there are.
func writeAll(r *rand.Rand, w *Writer, data []byte) error {
	for len(data) > 0 {
		n := 1 + r.IntN(min(len(data), 1<<r.IntN(22)))
		if r.IntN(3) == 0 {
			if _, err := w.ReadFrom(bytes.NewReader(data[:n])); err != nil {
				return err
			}
		} else if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
