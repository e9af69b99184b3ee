package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-fs/muster"
)

// TestPoolsOfDatanodesGo when nobody has used them for long, and not while somebody does.
func TestPoolsOfDatanodesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNodePools(nil)
		for i := range 100 {
			pool, idle := p.use(fmt.Sprint("dn", i))
			if len(idle) > 0 {
				t.Fatalf("%d pools go at once", len(idle))
			}
			if i > 0 {
				p.release(pool)
			}
		}
		time.Sleep(nodeIdle + time.Second)
		pool, idle := p.use("dn1")
		p.release(pool)
		if len(idle) != 98 || len(p.pools) != 2 {
			t.Errorf("%d pools go, %d stay; but for one that is used again and one with a call in progress they go", len(idle), len(p.pools))
		}
		for _, old := range idle {
			_ = old.Close()
		}
		if err := p.close(); err != nil || len(p.pools) != 0 {
			t.Errorf("%d pools after close, %v", len(p.pools), err)
		}
	})
}

// TestCallsOfDatanodesThatAreNotThere fail in time, and name the datanode.
func TestCallsOfDatanodesThatAreNotThere(t *testing.T) {
	p := newNodePools(nil)
	defer func() { _ = p.close() }()
	n := &muster.Node{ID: "dn-7", Host: "127.0.0.1", Port: 1}
	_, err := p.GetBlock(t.Context(), n, blockOfFile{})
	wantWords(t, err, muster.ErrUnavailable, "dn-7", "127.0.0.1:1")
	_, err = p.DeleteBlocks(t.Context(), n, []blockOfFile{{}}, forGood)
	wantWords(t, err, muster.ErrUnavailable, "dn-7")
	wantWords(t, p.CommitBlock(t.Context(), n, blockOfFile{}, 1), muster.ErrUnavailable, "dn-7")
}
