package registry_test

import (
	"testing"

	"github.com/cockroachdb/pebble/vfs"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations/registry"
)

// populated is a registry of 50 datanodes in 5 racks, and so many closed containers.
func populated(b *testing.B, fs vfs.FS, containers int) (*registry.Registry, []registry.Registered) {
	r := open(b, registry.Options{FS: fs})
	dn := join(b, r, 50, "/r0", "/r1", "/r2", "/r3", "/r4")
	for next := 0; next < containers; {
		var all []registry.Imported
		for ; next < containers && len(all) < registry.MaxImport; next++ {
			m := muster.NodeNumber(next)
			all = append(all, registry.Imported{Container: uint64(next + 1), Replication: three, Closed: true, Members: []muster.NodeNumber{m % 50, (m + 1) % 50, (m + 2) % 50}})
		}
		if err := r.Import(b.Context(), all); err != nil {
			b.Fatal(err)
		}
	}
	return r, dn
}

// BenchmarkLookup looks up 1,000 of 100,000 containers in one call.
func BenchmarkLookup(b *testing.B) {
	r, _ := populated(b, vfs.NewMem(), 100_000)
	ids := make([]uint64, 1000)
	for i := range ids {
		ids[i] = uint64(1 + i*97)
	}
	b.ReportAllocs()
	for b.Loop() {
		if a, err := r.Lookup(b.Context(), ids); err != nil || a.Outcomes[999].Err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReport is one datanode's full report of 6,000 containers.
func BenchmarkReport(b *testing.B) {
	r, dn := populated(b, vfs.NewMem(), 100_000)
	var all []registry.Replica
	for id := uint64(1); id <= 100_000; id += 17 {
		all = append(all, registry.Replica{Container: id, Closed: true})
	}
	for b.Loop() {
		if unknown, err := r.Report(dn[0].Number, dn[0].Session, true, all); err != nil || unknown > 0 {
			b.Fatal(unknown, err)
		}
	}
}

// BenchmarkAllocate asks for the blocks of one file at a time, on a disk in memory.
func BenchmarkAllocate(b *testing.B) {
	r, _ := populated(b, vfs.NewMem(), 0)
	for b.Loop() {
		allocate(b, r, registry.AllocateRequest{Replication: three, Count: 4})
	}
}

// BenchmarkOpen opens a registry of 100,000 containers.
func BenchmarkOpen(b *testing.B) {
	fs := vfs.NewMem()
	r, _ := populated(b, fs, 100_000)
	for b.Loop() {
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
		r = open(b, registry.Options{FS: fs})
	}
}
