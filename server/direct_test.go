package server_test

import (
	"testing"

	"github.com/muster-fs/muster/bench"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/rpc/pb"
	"github.com/muster-fs/muster/server"
)

// TestADirectServerAsksTheServiceEachTime: its answers are those of the cache.
func TestADirectServerAsksTheServiceEachTime(t *testing.T) {
	var tap *bench.Tap
	in := start(t, server.Options{Locations: server.Locating{Direct: true, Wrap: func(s locations.Source) locations.Source {
		tap = bench.NewTap(s)
		return tap
	}}})
	in.makeFile(t, "/f", 1, 2)
	for range 2 {
		for name, call := range map[string]func() (*pb.Located, error){
			"stat": func() (*pb.Located, error) {
				r, err := in.Stat(root(t), &pb.PathRequest{Path: []byte("/f"), Located: true})
				return r.GetLocated(), err
			},
			"locate": func() (*pb.Located, error) {
				r, err := in.Locate(root(t), &pb.LocateRequest{Path: []byte("/f")})
				return r.GetLocated(), err
			},
			"open": func() (*pb.Located, error) {
				r, err := in.Open(root(t), &pb.OpenRequest{Path: []byte("/f")})
				return r.GetLocated(), err
			},
		} {
			l, err := call()
			if err != nil || len(l.Containers) != 2 || l.Containers[0].Code == 0 {
				t.Errorf("%s: %v, %v", name, l, err)
			}
			if calls := tap.Take(); len(calls) != 1 || len(calls[0]) != 2 {
				t.Errorf("%s asked for %d", name, calls)
			}
		}
	}
}
