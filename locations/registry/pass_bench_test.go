package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
)

// BenchmarkPass is a pass over 100,000 of a million containers on 50 datanodes, which are all as they
// should be, or all lack a replica since a datanode of three is dead.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		name      string
		datanodes int
		dead      bool
	}{{"fine", 50, false}, {"a datanode of three is dead", 3, true}, {"one of 1,000 is dead", 1000, true}} {
		b.Run(c.name, func(b *testing.B) {
			r := crowded(b, 1_000_000, c.datanodes)
			if c.dead {
				r.nodes[0].health = muster.Dead
			}
			var w round
			for b.Loop() {
				w = r.pass(b.Context(), w)
			}
			b.ReportMetric(float64(r.Stats().UnderReplicated), "missing")
		})
	}
}

// crowded is a registry of closed containers, whose replicas have been reported.
func crowded(b *testing.B, containers, datanodes int) *Registry {
	r, err := Open("locations", Options{FS: vfs.NewMem(), PlanEvery: -1, StaleAfter: time.Hour, DeadAfter: 2 * time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	for i := range datanodes {
		id := fmt.Sprint("dn", i)
		if _, err := r.Register(b.Context(), Registration{ID: id, Host: id, Port: 1, Rack: fmt.Sprint("/r", i%5)}); err != nil {
			b.Fatal(err)
		}
	}
	has := make([][]Replica, datanodes)
	var all []Imported
	for i := range containers {
		c := Imported{Container: uint64(i) + 1, Replication: muster.Replicated(3), Closed: true}
		for k := range 3 {
			n := (i + k) % datanodes
			c.Members = append(c.Members, muster.NodeNumber(n))
			has[n] = append(has[n], Replica{Container: c.Container, Closed: true, Blocks: 10, Bytes: 1000})
		}
		if all = append(all, c); len(all) == MaxImport || i == containers-1 {
			if err := r.Import(b.Context(), all); err != nil {
				b.Fatal(err)
			}
			all = nil
		}
	}
	for n, replicas := range has {
		if _, err := r.Report(muster.NodeNumber(n), r.boot, true, replicas); err != nil {
			b.Fatal(err)
		}
	}
	return r
}
