package server_test

import (
	"context"
	"fmt"
	"testing"

	"storj.io/drpc"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/server"
)

// plain is an encoded message, which is sent and received as it is.
type plain []byte

type plainEncoding struct{}

func (plainEncoding) Marshal(m drpc.Message) ([]byte, error) { return *m.(*plain), nil }

func (plainEncoding) MarshalAppend(dst []byte, m drpc.Message) ([]byte, error) {
	return append(dst, *m.(*plain)...), nil
}

func (plainEncoding) Unmarshal(b []byte, m drpc.Message) error {
	p := m.(*plain)
	*p = append((*p)[:0], b...)
	return nil
}

// partitions fills directories with one file each, and returns n paths of them, in order
// and over again.
func (in *instance) partitions(t *testing.T, n int) []string {
	t.Helper()
	const directories = 1000
	var commands []muster.Command
	for i := range directories {
		dir := fmt.Sprintf("/t/day=2026-11-30/bucket=%05d", i)
		commands = append(commands, muster.Mkdir{Path: dir, Mode: 0o755, Parents: true}, muster.Create{Path: dir + "/part-00000.parquet", Mode: 0o644})
	}
	in.apply(t, commands...)
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/t/day=2026-11-30/bucket=%05d", i%directories)
	}
	return paths
}

// request is an encoded request for paths.
func request(last bool, paths ...string) plain {
	m := chunk(last, paths...)
	r := rpc.ListRequest{Paths: m.Paths, Count: m.Count, Last: last}
	return r.Append(nil)
}

// TestAPageCallCostsAFewAllocationsAndNoneForAPath counts what both ends of a call
// allocate, dRPC's own among it.
func TestAPageCallCostsAFewAllocationsAndNoneForAPath(t *testing.T) {
	if raceEnabled {
		t.Skip("calls allocate")
	}
	in := start(t, server.Options{})
	paths := in.partitions(t, 1000)
	ctx := context.WithoutCancel(root(t))
	cost := func(paths ...string) float64 {
		ask, answer := request(false, paths...), new(plain)
		return testing.AllocsPerRun(100, func() {
			if err := in.pool.Invoke(ctx, "/muster.v1.Namespace/ListPage", plainEncoding{}, &ask, answer); err != nil {
				t.Fatal(err)
			}
		})
	}
	one, all := cost(paths[0]), cost(paths...)
	if one > 26 {
		t.Errorf("a page of one path takes %v allocations", one)
	}
	if more := (all - one) / float64(len(paths)); more > 0.005 {
		t.Errorf("a page of %d paths takes %v allocations, %v for each path more than one", len(paths), all, more)
	}
}

func TestAStreamedStatusCostsTheServerNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("calls allocate")
	}
	in := start(t, server.Options{})
	const n = 40_000
	var requests []plain
	for paths := in.partitions(t, n); len(paths) > 0; {
		size := min(rpc.MaxChunkPaths, len(paths))
		requests = append(requests, request(size == len(paths), paths[:size]...))
		paths = paths[size:]
	}
	ctx := context.WithoutCancel(root(t))
	var answer []byte
	list := func() {
		s, err := in.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan error, 1)
		go func() {
			var err error
			for i := 0; i < len(requests) && err == nil; i++ {
				err = rpc.SendRaw(s, requests[i])
			}
			sent <- err
		}()
		var r rpc.ListReply
		for !r.Done {
			if err := rpc.ReceiveRaw(s, &answer); err != nil {
				t.Fatal(err)
			}
			if err := r.Unmarshal(answer, func([]byte) error { return nil }, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-sent; err != nil || r.TotalRows != n || r.TotalOutcomes != n {
			t.Fatalf("%d rows and %d outcomes, %v", r.TotalRows, r.TotalOutcomes, err)
		}
		_ = s.Close()
	}
	if got := testing.AllocsPerRun(3, list) / n; got > 0.01 {
		t.Errorf("%.4f allocations a status", got)
	}
}
