package client_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/muster-fs/muster"
	"github.com/muster-fs/muster/client"
	"github.com/muster-fs/muster/listing/rows"
	"github.com/muster-fs/muster/locations"
	"github.com/muster-fs/muster/rpc"
	"github.com/muster-fs/muster/server"
)

// pair is a namespace server and a location service apart from it, each of which can be restarted.
type pair struct {
	*instance
	service *server.LocationServer
	options server.LocationsOptions
}

// startPair starts both. The server's cache is so small that it asks all the time.
func startPair(t *testing.T) *pair {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(key, bytes.Repeat([]byte{7}, rpc.ClusterKeyBytes), 0o600))
	p := &pair{options: server.LocationsOptions{Dir: t.TempDir(), KeyFile: key}}
	p.upService(t)
	t.Cleanup(func() { must(t, p.service.Shutdown(context.Background())) })
	p.instance = startWith(t, func(o *server.Options) {
		o.KeyFile, o.Locations = key, server.Locating{Server: p.options.Listen, Cache: locations.Options{Size: 16}}
	})
	return p
}

func (p *pair) upService(t *testing.T) {
	t.Helper()
	s, err := server.StartLocations(context.Background(), p.options)
	must(t, err)
	p.service, p.options.Listen = s, s.Addr().String()
}

func (p *pair) killService() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.service.Shutdown(ctx) // says that calls were ended
	<-p.service.Done()
}

// fill makes directories of files on four datanodes, and says where their blocks are.
func (p *pair) fill(t *testing.T) (c *client.Client, dirs []string, where truth) {
	nodes := p.joinAt(p.options.Listen, p.options.KeyFile, 4)
	c, where = dial(t, p.addr(), client.Options{Attempts: 1000}), truth{}
	for d := range 12 {
		dirs = append(dirs, fmt.Sprintf("/t/%02d", d))
		for f := range 5 {
			path := fmt.Sprintf("%s/f%d", dirs[d], f)
			nodes.file(t, c, path, muster.Replicated(1+(d+f)%4), 1+f)
			l, err := c.Lookup(t.Context(), path)
			must(t, err)
			for _, b := range l.Blocks {
				all := hosts(b)
				where[path] = append(where[path], slices.Sorted(slices.Values(all)))
			}
		}
	}
	return c, dirs, where
}

// truth is where each file's blocks are, on hosts in order.
type truth map[string][][]string

// check says what is wrong with a file: a block that is told to be where it is not.
func (w truth) check(l *client.Located, whole bool) error {
	want, ok := w[l.Path]
	if !ok || len(l.Blocks) != len(want) {
		return fmt.Errorf("%s: %d blocks, want %d", l.Path, len(l.Blocks), len(want))
	}
	for k, b := range l.Blocks {
		all := hosts(b)
		slices.Sort(all)
		if b.Err == nil && !slices.Equal(all, want[k]) || b.Err != nil && whole {
			return fmt.Errorf("%s: block %d on %q, %v; want %q", l.Path, k, all, b.Err, want[k])
		}
	}
	return nil
}

// TestLocatedListingsGoOnThroughRestartsOfEither the server or its location service: no call fails,
// no row is wrong or missing, and where it is not known where a block is that is said.
func TestLocatedListingsGoOnThroughRestartsOfEither(t *testing.T) {
	p := startPair(t)
	c, dirs, where := p.fill(t)
	files := slices.Sorted(maps.Keys(where))

	var done atomic.Bool
	var callers sync.WaitGroup
	for name, call := range map[string]func() error{
		"list, hint": func() error { return where.list(t.Context(), c, dirs, muster.LocationsHint) },
		"list, must": func() error { return where.list(t.Context(), c, dirs, muster.LocationsMust) },
		"locate many": func() error {
			n := 0
			for l, err := range c.LocateMany(t.Context(), slices.Values(files), client.LocateOptions{}) {
				if err != nil {
					return err
				}
				if n++; errors.Is(l.Err, muster.ErrUnavailable) {
					continue
				}
				if err := cmp.Or(l.Err, where.check(&l.Located, true)); err != nil {
					return err
				}
			}
			if n != len(files) {
				return fmt.Errorf("%d answers for %d paths", n, len(files))
			}
			return nil
		},
		"a thousand calls": func() error {
			for _, path := range files {
				l, err := c.StatLocated(t.Context(), path)
				if err := cmp.Or(err, where.check(&l, false)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		callers.Go(func() {
			for !done.Load() {
				if err := call(); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	for round := range 6 {
		if round%2 == 0 {
			p.killService()
			must(t, where.list(t.Context(), c, dirs, muster.LocationsHint))
			p.upService(t)
		} else {
			p.kill()
			p.up()
		}
		must(t, where.list(t.Context(), c, dirs, muster.LocationsHint))
	}
	done.Store(true)
	callers.Wait()
	for whole := false; !whole; { // when all are back, so are the answers
		whole = true
		for b, err := range c.List(t.Context(), slices.Values(dirs), client.ListOptions{Columns: rows.AllColumns, Locations: muster.LocationsMust}) {
			must(t, err)
			for i := range b.Len() {
				l := b.Located(i)
				whole = whole && where.check(&l, true) == nil
			}
		}
	}
}

// list lists directories of files and checks all that comes.
func (w truth) list(ctx context.Context, c *client.Client, dirs []string, locations muster.Locations) error {
	seen, ended := map[string]bool{}, 0
	for b, err := range c.List(ctx, slices.Values(dirs), client.ListOptions{Limit: 7, Locations: locations, Sorted: true}) {
		if err != nil {
			return err
		}
		for i := range b.Len() {
			l := b.Located(i)
			if err := w.check(&l, false); err != nil {
				return err
			}
			if seen[l.Path] {
				return fmt.Errorf("%s came twice", l.Path)
			}
			seen[l.Path] = true
		}
		for _, o := range b.Outcomes {
			ended++
			if o.Code != muster.OK && (o.Code != muster.ErrUnavailable || locations != muster.LocationsMust) {
				return o.Err()
			}
		}
	}
	if ended != len(dirs) || len(seen) != len(w) && locations != muster.LocationsMust {
		return fmt.Errorf("%d of %d paths, %d of %d rows", ended, len(dirs), len(seen), len(w))
	}
	return nil
}
