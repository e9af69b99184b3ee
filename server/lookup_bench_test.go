package server

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/rpc/pb"
)

// BenchmarkLookupReply is what a look-up of 10,000 of 100,000 containers on 50 datanodes takes
// of the location service beside the wire, and what its answer takes of who asks.
func BenchmarkLookupReply(b *testing.B) {
	r, err := registry.Open(b.TempDir(), registry.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	const nodes, containers = 50, 100_000
	for i := range nodes {
		id := fmt.Sprint("dn", i)
		if _, err := r.Register(b.Context(), registry.Registration{ID: id, Host: id + ".example", Port: 1, Rack: "/r"}); err != nil {
			b.Fatal(err)
		}
	}
	var all []registry.Imported
	for i := range muster.NodeNumber(containers) {
		all = append(all, registry.Imported{
			Container: uint64(i + 1), Replication: muster.Replicated(3), Closed: true, Members: []muster.NodeNumber{i % nodes, (i + 1) % nodes, (i + 2) % nodes},
		})
		if len(all) == registry.MaxImport {
			if err := r.Import(b.Context(), all); err != nil {
				b.Fatal(err)
			}
			all = nil
		}
	}
	if err := r.Import(b.Context(), all); err != nil && len(all) > 0 {
		b.Fatal(err)
	}
	q := &pb.LookupRequest{}
	for i := range uint64(locations.MaxBatch) {
		q.Containers = append(q.Containers, 1+i*97%containers)
	}
	calls := &locationCalls{registry: r, serving: b.Context()}
	var message []byte
	each := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(q.Containers)), "ns/container")
	}
	b.Run("answer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.Lookup(b.Context(), q.Containers); err != nil {
				b.Fatal(err)
			}
		}
		each(b)
	})
	b.Run("message", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			reply, err := calls.Lookup(b.Context(), q)
			if err != nil {
				b.Fatal(err)
			}
			if message, err = (proto.MarshalOptions{}).MarshalAppend(message[:0], reply); err != nil {
				b.Fatal(err)
			}
		}
		each(b)
	})
	b.Run("reading", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var reply pb.LookupReply
			if err := proto.Unmarshal(message, &reply); err != nil {
				b.Fatal(err)
			}
			if _, err := answerFromPB(&reply, q.Containers); err != nil {
				b.Fatal(err)
			}
		}
		each(b)
	})
}
