package server

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/listing"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/locations/registry"
	"github.com/muster-fs/muster/namespace"
	"github.com/muster-fs/muster/rpc"
)

// statusFiles are files as muster bench locations has them.
var statusFiles = []statusFile{{rs32, 4}, {muster.Replicated(3), 12}}

type statusFile struct {
	of     muster.Replication
	blocks int
}

func (f statusFile) path() string { return "/" + strings.ReplaceAll(f.of.String(), "/", "-") }

// BenchmarkStatus is a status with locations without the client and its wire: from the cache, from a
// location service that is asked over loopback each time, and without locations.
//
//	go test -run '^$' -bench Status -count 5 ./server
func BenchmarkStatus(b *testing.B) {
	l, source := startBesideService(b)
	root := muster.Identity{User: "root"}
	for _, file := range statusFiles {
		path := file.path()
		for _, arm := range []struct {
			name string
			from listing.Places // nil: nobody is asked
		}{{"service", direct{l.cache, source}}, {"cache", l.cache}, {"head", nil}} {
			for _, goroutines := range []int{1, 10} {
				b.Run(fmt.Sprintf("file=%s/arm=%s/goroutines=%d", path[1:], arm.name, goroutines), func(b *testing.B) {
					b.ReportAllocs()
					var g errgroup.Group
					for i := range goroutines {
						g.Go(func() error {
							for range (b.N + i) / goroutines {
								if err := l.status(&root, path, arm.from); err != nil {
									return err
								}
							}
							return nil
						})
					}
					if err := g.Wait(); err != nil {
						b.Fatal(err)
					}
				})
			}
		}
	}
}

// status does what a call of Stat does between its request and its reply.
func (l *located) status(caller *muster.Identity, path string, from listing.Places) error {
	f, err := readFile(l.tree, caller, wanted{path: []byte(path), all: true, to: math.MaxInt64})
	if err != nil || from == nil {
		return err
	}
	places, err := asking(from.Get).places(context.Background(), f)
	if err == nil {
		err = known(places, f.containers)
	}
	if err != nil {
		return err
	}
	l.describe(context.Background(), f, places, order{}, nil)
	return nil
}

// startBesideService starts a location service, and a namespace server that has files in its
// containers and whose directories are in memory.
func startBesideService(b *testing.B) (*located, *remote) {
	cluster := bytes.Repeat([]byte{1}, rpc.ClusterKeyBytes)
	file := filepath.Join(b.TempDir(), "key")
	if err := os.WriteFile(file, cluster, 0o600); err != nil {
		b.Fatal(err)
	}
	service, err := StartLocations(b.Context(), LocationsOptions{Dir: b.TempDir(), KeyFile: file})
	if err != nil {
		b.Fatal(err)
	}
	key, err := rpc.NewPeerKey(cluster)
	if err != nil {
		b.Fatal(err)
	}
	source := newRemote(service.Addr().String(), key, new(Locating).patience())
	l := startLocatedOn(b, namespace.Options{})
	if l.cache, err = locations.New(source, locations.Options{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		l.cache.Close()
		_ = source.close()
		if err := service.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	l.fillService(b, service.Registry())
	return l, source
}

// fillService makes 12 datanodes in 4 racks known, and the files' containers on them, a block each.
func (l *located) fillService(b *testing.B, r *registry.Registry) {
	var nodes []muster.NodeNumber
	for i := range 12 {
		id := fmt.Sprintf("dn-%d", i)
		known, err := r.Register(b.Context(), registry.Registration{ID: id, Host: id, Port: 9866, Rack: rackOf(muster.NodeNumber(i % racks * nodesPerRack))})
		if err != nil {
			b.Fatal(err)
		}
		nodes = append(nodes, known.Number)
	}
	next := uint64(1)
	for _, file := range statusFiles {
		var (
			all []registry.Imported
			ids []uint64
		)
		for range file.blocks {
			k := registry.Imported{Container: next, Replication: file.of}
			for i := range file.of.Nodes() {
				k.Members = append(k.Members, nodes[(int(next)+i)%len(nodes)])
			}
			all, ids, next = append(all, k), append(ids, next), next+1
		}
		if err := r.Import(b.Context(), all); err != nil {
			b.Fatal(err)
		}
		l.apply(muster.Create{
			Path: file.path(), Mode: 0o644, Replication: file.of, BlockSize: 100, Length: int64(100 * file.blocks), Blocks: blocksIn(ids...),
		})
	}
}
