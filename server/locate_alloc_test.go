package server_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// TestALocatedCallCostsAFewAllocationsAndNoneForABlock counts what both ends of a call
// allocate, dRPC's own among it, but for the reading of the answer.
func TestALocatedCallCostsAFewAllocationsAndNoneForABlock(t *testing.T) {
	if raceEnabled {
		t.Skip("calls allocate")
	}
	t.Run("without tokens", func(t *testing.T) { locatedCallCosts(t, false) })
	t.Run("with tokens", func(t *testing.T) { locatedCallCosts(t, true) })
}

func locatedCallCosts(t *testing.T, tokens bool) {
	key := keyFile(t, 1)
	in := start(t, server.Options{KeyFile: key, Locations: server.Locating{Tokens: tokens}})
	const many = 1000
	join(t, in.Addr().String(), key, 4).fillContainers(t, in.Registry(), many)
	containers := make([]uint64, many)
	for i := range containers {
		containers[i] = uint64(i + 1)
	}
	in.makeFile(t, "/one", 1)
	in.makeFile(t, "/many", containers...)
	ctx := context.WithoutCancel(root(t))
	for name, c := range map[string]struct {
		request   func(path []byte) proto.Message
		one, more float64 // allocations at most of one block, and of each further one
	}{
		"Stat":   {func(p []byte) proto.Message { return &pb.PathRequest{Path: p, Located: true, Sorted: true} }, 56, 0.05},
		"Locate": {func(p []byte) proto.Message { return &pb.LocateRequest{Path: p} }, 56, 0.05},
		"Open":   {func(p []byte) proto.Message { return &pb.OpenRequest{Path: p} }, 56, 0.05},
		"Lookup": {func(p []byte) proto.Message { return &pb.OpenRequest{Path: p} }, 80, 1.1}, // the cache keeps anew what it loads
	} {
		cost := func(path string) float64 {
			b, err := proto.Marshal(c.request([]byte(path)))
			if err != nil {
				t.Fatal(err)
			}
			ask, answer := plain(b), new(plain)
			return testing.AllocsPerRun(30, func() {
				if err := in.pool.Invoke(ctx, "/muster.v1.Namespace/"+name, plainEncoding{}, &ask, answer); err != nil {
					t.Fatal(err)
				}
			})
		}
		one, all := cost("/one"), cost("/many")
		if tokens && (name == "Open" || name == "Lookup") {
			c.one += 6
		}
		if one > c.one {
			t.Errorf("%s of one block takes %v allocations", name, one)
		}
		if more := (all - one) / (many - 1); more > c.more {
			t.Errorf("%s of %d blocks takes %v allocations, %v for each block more than one", name, many, all, more)
		}
	}
}

// TestALookUpCostsTheLocationServiceAFewAllocations however many containers it names.
func TestALookUpCostsTheLocationServiceAFewAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("calls allocate")
	}
	key := keyFile(t, 1)
	s := startLocations(t, server.LocationsOptions{KeyFile: key})
	const many = 10_000
	join(t, s.Addr().String(), key, 4).fillContainers(t, s.Registry(), many)
	pool := peers(t, s.Addr().String(), key, rpc.RoleNamespace)
	ctx := rpc.ClientContext(context.Background(), muster.Identity{User: "x"})
	q := &pb.LookupRequest{}
	for id := range uint64(many) {
		q.Containers = append(q.Containers, id+1)
	}
	cost := func(n int) float64 {
		b, err := proto.Marshal(&pb.LookupRequest{Containers: q.Containers[:n]})
		if err != nil {
			t.Fatal(err)
		}
		ask, answer := plain(b), new(plain)
		return testing.AllocsPerRun(20, func() {
			if err := pool.Invoke(ctx, "/muster.v1.Locations/Lookup", plainEncoding{}, &ask, answer); err != nil {
				t.Fatal(err)
			}
		})
	}
	one, all := cost(1), cost(many)
	if more := (all - one) / (many - 1); one > 40 || more > 0.03 {
		t.Errorf("one container takes %v allocations, %d take %v: %v for each", one, many, all, more)
	}
}
